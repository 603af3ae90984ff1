// The JavaScript client of `hmt serve`: words in, an append-only translation out.
// Events: state, heard, tentative, delta (joined without spaces they are the text), done, waiting, updated,
// notice, problem. A lost connection is resumed: no word is lost, none is shown twice.

const CHUNK = 100; // words in a message
const SILENCE_MS = 40_000; // the server sends a heartbeat every 15 s
const FIRST_WAIT_MS = 400;
const MOST_WAIT_MS = 15_000;
// Close codes of sessions that are over: see docs/serve.md.
const OVER = [1000, 4400, 4401, 4403, 4404, 4408, 4409, 4413];

export const words = (text) => text.split(/\s+/u).filter(Boolean);

export class Translator {
	constructor({ base = document.baseURI, model, room, token, settings = {} } = {}) {
		Object.assign(this, { base, model, room, token, settings });
		this.listeners = {};
		this.state = "idle";
		this.attempts = this.seq = 0;
		this.unanswered = []; // messages that the server has not accepted yet
		this.forget();
	}

	on(name, listener) {
		(this.listeners[name] ??= []).push(listener);
		return this;
	}

	emit(name, ...facts) {
		for (const listener of this.listeners[name] ?? []) listener(...facts);
	}

	// ---- what one can do

	connect() {
		clearTimeout(this.timer);
		const url = new URL("v1/realtime/translations", this.base);
		url.protocol = url.protocol.replace("http", "ws");
		if (this.model) url.searchParams.set("model", this.model);
		if (this.room) url.searchParams.set("room", this.room);
		if (this.resumeToken) url.searchParams.set("resume", this.session.id); // finds its server behind a proxy
		this.become("connecting");
		const socket = new WebSocket(url, this.token ? ["hmt.v1", `hmt.token.${this.token}`] : []);
		this.socket = socket;
		this.expect();
		socket.onopen = () => this.resumeToken && this.resume();
		socket.onmessage = ({ data }) => socket === this.socket && this.take(JSON.parse(data));
		socket.onclose = ({ code, reason }) => socket === this.socket && this.lost(code, reason);
	}

	update(hmt) {
		const knobs = { ...this.settings.knobs, ...hmt.knobs };
		this.settings = { ...this.settings, ...hmt, knobs };
		if (this.state === "live") this.send({ type: "session.update", session: { hmt } });
	}

	append(text) {
		const list = Array.isArray(text) ? text : words(text);
		for (let at = 0; at < list.length; at += CHUNK) {
			const part = list.slice(at, at + CHUNK);
			this.keep("append", {}, this.settings.echo ? { text: `${part.join(" ")} ` } : { words: part });
		}
		if (!this.settings.echo) this.hear(list); // else the server echoes them
	}

	// A recogniser's whole guess of one utterance; its first `committed` words are final.
	hypothesis(text, utterance, committed) {
		this.keep("hypothesis", { text, utterance, committed });
	}

	commit(reason) {
		this.keep("commit", { reason });
	}

	clear() {
		this.open = [];
		this.shown = "";
		this.keep("clear", {});
	}

	close() {
		this.send({ type: "session.close" });
		clearTimeout(this.timer);
		clearTimeout(this.watch);
		this.leaving = true; // the last words are still coming
		this.become("closed");
	}

	// ---- the connection

	become(state, detail = "") {
		this.state = state;
		this.emit("state", state, detail);
	}

	send(message) {
		if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(message));
	}

	keep(kind, hmt, rest) {
		const message = { type: `session.input_text.${kind}`, ...rest, hmt: { seq: ++this.seq, ...hmt } };
		this.unanswered.push(message);
		if (this.state === "live") this.send(message);
		else if (this.state === "closed" && !this.leaving) this.connect();
	}

	hear(list) {
		this.open.push(...list);
		this.emit("heard", list);
	}

	// A server that does not know the session needs the words and text of its open sentence.
	resume() {
		const { resumeToken: token, n: after, accepted: source_seq, shown, sentence, offset } = this;
		const unsent = this.unanswered.flatMap((message) => message.words ?? []).length;
		const open_sentence = this.open.slice(0, Math.max(this.open.length - unsent, 0));
		const { knobs } = this.settings;
		const hmt = { token, after, source_seq, open_sentence, shown, sentence, offset, knobs };
		this.send({ type: "session.resume", hmt });
	}

	forget() {
		Object.assign(this, { resumeToken: null, n: 0, accepted: 0, open: [], shown: "", sentence: 0, offset: 0 });
	}

	live(session) {
		this.session = session;
		this.resumeToken = session.hmt.resume_token;
		this.attempts = 0;
		this.moves = false;
		this.become("live");
		this.send({ type: "session.update", session: { hmt: this.settings } });
		this.unanswered.forEach((message) => this.send(message));
		if (this.leaving) this.close(); // sent before, over a connection that was lost
	}

	lost(code, reason) {
		clearTimeout(this.watch);
		this.socket = null;
		const isLost = this.moves || this.retryAfter || reason === "stalled"; // the network was too slow
		if (OVER.includes(code) && !isLost) {
			this.forget();
			return this.leaving || this.become("closed", code);
		}
		const longest = Math.min(FIRST_WAIT_MS * 2 ** this.attempts++, MOST_WAIT_MS);
		const wait = Math.max(longest * (0.5 + Math.random() / 2), this.retryAfter ?? 0);
		this.retryAfter = 0;
		this.become("waiting", wait);
		this.timer = setTimeout(() => this.connect(), wait);
	}

	// ---- what the server says

	expect() {
		clearTimeout(this.watch);
		this.watch = setTimeout(() => (this.socket.close(), this.lost(0)), SILENCE_MS);
	}

	take({ type, session, delta, error, hmt = {} }) {
		this.expect();
		if (hmt.n <= this.n) return; // shown before the connection was lost
		this.n = hmt.n ?? this.n;
		const kind = type.replace("session.", "");
		if (kind === "created" || kind === "resumed") {
			this.answered(hmt);
			this.live(session);
		} else if (kind === "updated") this.emit("updated", session, hmt.applies);
		else if (kind === "input_text.accepted") {
			this.answered(hmt);
			this.emit("tentative", hmt.tentative);
		} else if (kind === "input_transcript.delta") this.hear(words(delta));
		else if (kind === "output_transcript.delta") {
			this.shown += delta;
			this.offset = hmt.offset + [...delta].length;
			this.emit("delta", delta, hmt);
		} else if (kind === "output_transcript.done") {
			this.open.splice(0, words(hmt.source).length);
			this.shown = "";
			this.sentence = hmt.sentence + 1;
			this.emit("done", hmt);
		} else if (kind === "waiting" || kind === "notice") {
			this.moves ||= hmt.code === "going_away"; // another server takes over
			this.emit(kind, hmt);
		} else if (kind === "error") {
			this.retryAfter = 1000 * (error.retry_after ?? 0);
			this.emit("problem", error.message, error.code);
		}
	}

	answered({ seq }) {
		this.accepted = seq ?? this.accepted;
		this.unanswered = this.unanswered.filter((message) => message.hmt.seq > this.accepted);
	}
}
