// Listening to a room: one stream of events, taken up again for ever.

const KINDS = ["snapshot", "delta", "sentence", "tentative", "state"];

export function listen(room, take, changed, base = document.baseURI) {
	let attempts = 0;
	const open = () => {
		const source = new EventSource(new URL(`v1/rooms/${encodeURIComponent(room)}/events`, base));
		source.onopen = () => ((attempts = 0), changed("live"));
		source.onerror = () => {
			changed("waiting");
			if (source.readyState !== EventSource.CLOSED) return; // the browser tries again by itself
			setTimeout(open, Math.min(1000 * 2 ** attempts++, 15_000) * (0.5 + Math.random() / 2));
		};
		for (const kind of KINDS) {
			source.addEventListener(kind, ({ data }) => take(kind, JSON.parse(data)));
		}
	};
	open();
}

// A name that can be read out: no letters or digits that look alike.
export function roomName() {
	const letters = "abcdefghjkmnpqrstuvwxyz23456789";
	return Array.from(crypto.getRandomValues(new Uint8Array(8)), (byte) => letters[byte % letters.length]).join("");
}
