// The JavaScript client of `hmt serve`: words in, a translation that only grows out.
//
//   const live = new Translator({ base: "http://localhost:8000/", model: "de-en" });
//   live.on("delta", (text, facts) => show(text));   // insert no spaces: joined, deltas are the text
//   live.connect();
//   live.append("Guten Morgen, meine Damen und Herren. ");
//
// Events: state(name, detail) · heard(words) · tentative(text) · delta(text, facts) · done(facts)
//   waiting(facts) · updated(session, applies) · notice(facts) · problem(message, code) · any(event)
// A lost connection is taken up again by itself: no word is lost, none is sent or shown twice.

const WORDS_PER_MESSAGE = 100;
const SILENCE_MS = 40_000; // the server sends a heartbeat every 15 s
const WAITS_MS = { first: 400, most: 15_000 };
const FINAL = new Map([
  [1000, "The session has ended."],
  [4400, "The server did not understand this page; load it again."],
  [4401, "This server needs a token."],
  [4403, "This address may not use the server, or not this room."],
  [4404, "The server knows no such model, room or session."],
  [4408, "The session was idle and has ended; the next word begins a new one."],
  [4409, "The session was taken over by a newer window."],
]);

export const words = (text) => text.trim().split(/\s+/u).filter(Boolean);

export class Translator {
  constructor({ base = document.baseURI, model, room, token, settings = {} } = {}) {
    Object.assign(this, { base, model, room, token, settings });
    this.listeners = new Map();
    this.attempts = this.seq = this.n = 0;
    this.unanswered = []; // messages with a seq that the server has not accepted yet
    this.open = []; // words of the open sentence, from which a server that knows nothing rebuilds it
    this.session = null;
    this.state = "idle";
  }

  on(name, listener) {
    this.listeners.set(name, [...(this.listeners.get(name) ?? []), listener]);
    return this;
  }

  emit(name, ...facts) {
    for (const listener of this.listeners.get(name) ?? []) listener(...facts);
  }

  // ---- what one can do

  connect() {
    clearTimeout(this.timer);
    const url = new URL("v1/realtime/translations", this.base);
    url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
    if (this.model) url.searchParams.set("model", this.model);
    if (this.room) url.searchParams.set("room", this.room);
    this.become("connecting");
    const protocols = this.token ? ["hmt.v1", `hmt.token.${this.token}`] : [];
    const socket = (this.socket = new WebSocket(url, protocols));
    socket.onmessage = ({ data }) => socket === this.socket && this.take(JSON.parse(data));
    socket.onclose = ({ code }) => socket === this.socket && this.lost(code);
    socket.onopen = () => this.resumeToken && this.send(this.resumption());
  }

  update(hmt) {
    const knobs = { ...this.settings.knobs, ...hmt.knobs };
    this.settings = { ...this.settings, ...hmt, ...(Object.keys(knobs).length && { knobs }) };
    if (this.state === "live") this.send({ type: "session.update", session: { hmt } });
  }

  append(text) {
    const list = Array.isArray(text) ? text : words(text);
    for (let at = 0; at < list.length; at += WORDS_PER_MESSAGE) {
      const part = list.slice(at, at + WORDS_PER_MESSAGE);
      this.keep({ type: "session.input_text.append", text: part.join(" ") + " " }, {});
    }
    this.hear(list);
  }

  hypothesis(text, utterance, committed) {
    this.keep({ type: "session.input_text.hypothesis" }, { utterance, text, committed });
  }

  commit(reason = "finish") {
    this.keep({ type: "session.input_text.commit" }, { reason });
  }

  clear() {
    this.open = [];
    this.keep({ type: "session.input_text.clear" }, {});
  }

  close() {
    if (this.state === "live") this.send({ type: "session.close" });
    clearTimeout(this.timer);
    clearTimeout(this.watch);
    const socket = this.socket;
    this.socket = null;
    setTimeout(() => socket?.close(1000), 500); // the last words may still be on their way
    this.become("closed", "");
  }

  // ---- the connection

  become(state, detail = "") {
    this.state = state;
    this.emit("state", state, detail);
  }

  send(message) {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(message));
  }

  keep(message, hmt) {
    message.hmt = { seq: ++this.seq, ...hmt };
    this.unanswered.push(message);
    if (this.state === "live") this.send(message);
    else if (this.state === "closed" && this.mayReturn) this.connect();
  }

  hear(list) {
    if (!list.length) return;
    this.open.push(...list);
    this.emit("heard", list);
  }

  resumption() {
    const { resumeToken: token, n: after, accepted: source_seq = 0, open: open_sentence } = this;
    return { type: "session.resume", hmt: { token, after, source_seq, open_sentence } };
  }

  live(session) {
    this.session = session;
    this.resumeToken = session.hmt?.resume_token ?? this.resumeToken;
    this.attempts = 0;
    this.become("live");
    if (Object.keys(this.settings).length) {
      this.send({ type: "session.update", session: { hmt: this.settings } });
    }
    for (const message of this.unanswered) this.send(message);
  }

  lost(code) {
    clearTimeout(this.watch);
    this.socket = null;
    if (FINAL.has(code)) {
      this.mayReturn = code === 4408 || code === 1000;
      this.resumeToken = null;
      return this.become("closed", FINAL.get(code));
    }
    const grown = Math.min(WAITS_MS.first * 2 ** this.attempts++, WAITS_MS.most);
    const wait = Math.max(grown * (0.5 + Math.random() / 2), this.retryAfter ?? 0);
    this.retryAfter = 0;
    this.become("waiting", wait);
    this.timer = setTimeout(() => this.connect(), wait);
  }

  // ---- what the server says

  take(event) {
    const { type, hmt = {} } = event;
    clearTimeout(this.watch);
    this.watch = setTimeout(() => this.socket?.close(), SILENCE_MS);
    if (hmt.n) this.n = Math.max(this.n, hmt.n);
    this.emit("any", event);
    if (type === "session.created" || type === "session.resumed") this.live(event.session);
    else if (type === "session.updated") this.emit("updated", event.session, hmt.applies ?? {});
    else if (type === "session.input_text.accepted") this.answered(hmt);
    else if (type === "session.input_transcript.delta") this.hear(words(event.delta));
    else if (type === "session.output_transcript.delta") this.emit("delta", event.delta, hmt);
    else if (type === "session.output_transcript.done") {
      this.open.splice(0, words(hmt.source ?? "").length);
      this.emit("done", hmt);
    } else if (type === "session.waiting") this.emit("waiting", hmt);
    else if (type === "session.notice") this.emit("notice", hmt);
    else if (type === "error") {
      if (event.error.retry_after) this.retryAfter = event.error.retry_after * 1000;
      this.emit("problem", event.error.message, event.error.code);
    }
  }

  answered({ seq, tentative = "" }) {
    this.accepted = seq;
    this.unanswered = this.unanswered.filter((message) => message.hmt.seq > seq);
    this.emit("tentative", tentative);
  }
}
