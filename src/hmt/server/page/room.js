// Listening to a room: one stream of events, resumed whenever it breaks.

import { words } from "./client.js";

// `track` is the language to read; without it, the first one that the room has.
export function listen(room, { heard, tentative, delta: wrote, done, state }, track) {
	const query = new URLSearchParams({ kind: "words,source", wait: 1 });
	const token = new URLSearchParams(location.search).get("token");
	if (token) query.set("token", token);
	let attempts = 0, last = -1, count = 0; // which sentence is shown, and how many characters of it
	// Text already shown, perhaps from another server, is skipped.
	const write = (text, sentence, offset = 0) => {
		if (sentence < last) return;
		if (sentence > last) [last, count] = [sentence, 0];
		const rest = [...(offset ? text : text.trimStart())].slice(Math.max(count - offset, 0));
		count += rest.length;
		if (rest.length) wrote(rest.join(""), { sentence, track });
	};
	const end = (sentence, event) => {
		if (sentence < last) return;
		[last, count] = [sentence + 1, 0];
		done?.(event);
	};
	const take = {
		snapshot({ tracks, state: now }) {
			track ??= Object.keys(tracks).find((name) => name !== "source");
			const { sentences = [], open = "", sentence = last } = tracks[track] ?? {};
			if (sentence < last) last = -1; // another talk
			sentences.forEach((text, k) => {
				const number = sentence - sentences.length + k;
				write(text, number);
				end(number, {});
			});
			write(open, sentence);
			take.state({ state: now });
		},
		delta(event) {
			if (event.track === "source") return heard(words(event.delta));
			track ??= event.track;
			if (event.track === track) write(event.delta, event.sentence, event.offset);
		},
		sentence: (event) => event.track === track && end(event.sentence, event),
		tentative: ({ text }) => tentative?.(text),
		state: ({ state: now }) => state({ live: "listening", waiting: "away" }[now] ?? now),
	};
	const open = () => {
		const events = new EventSource(`v1/rooms/${encodeURIComponent(room)}/events?${query}`);
		events.onopen = () => (attempts = 0);
		events.onerror = () => {
			state("waiting");
			if (events.readyState !== EventSource.CLOSED) return; // it tries again by itself
			setTimeout(open, Math.min(1000 * 2 ** attempts++, 15_000) * (0.5 + Math.random() / 2));
		};
		for (const kind in take) events.addEventListener(kind, ({ data }) => take[kind](JSON.parse(data)));
	};
	state("connecting");
	open();
}

// A name that can be read aloud: no characters that look alike.
export function roomName() {
	const letters = "abcdefghjkmnpqrstuvwxyz23456789";
	return Array.from(crypto.getRandomValues(new Uint8Array(8)), (byte) => letters[byte % letters.length]).join("");
}
