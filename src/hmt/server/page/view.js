// The running text: one row per sentence, original and translation; words are placed once.

export const make = (tag, attributes = {}, ...children) => {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
};

const RTL = new Set(["ar", "arc", "dv", "fa", "he", "ks", "ku", "ps", "sd", "ug", "ur", "yi"]);
export const language = (code) =>
  code ? { lang: code, dir: RTL.has(code.split("-")[0]) ? "rtl" : "ltr" } : { dir: "auto" };

// Four inks; the palest keeps a contrast of 4.5:1. Without a number the ink is full.
export const ink = (confidence) =>
  confidence == null || confidence >= 0.9 ? "c1" : confidence >= 0.75 ? "c2" : confidence >= 0.6 ? "c3" : "c4";

export class Transcript {
  constructor(stage, list, onWord) {
    Object.assign(this, { stage, list, onWord, rows: [], row: null, follows: true });
    this.languages = [null, null];
    this.layout = "reading";
    stage.addEventListener("scroll", () => this.scrolled(), { passive: true });
    stage.addEventListener("pointerdown", () => (this.gliding = 0), { passive: true });
    stage.addEventListener("wheel", () => (this.gliding = 0), { passive: true });
    list.addEventListener("click", ({ target }) => this.clicked(target));
  }

  // ---- what happens

  heard(list, at = performance.now()) {
    const row = this.current();
    for (const text of list) this.addSource(row, { text, at });
    this.follow();
  }

  tentative(text) {
    const row = text || this.row ? this.current() : null;
    if (row) row.tail.textContent = text ? ` ${text}` : "";
    if (text) this.follow();
  }

  wrote(text, facts, now = performance.now()) {
    let row = this.current();
    if (row.sentence != null && facts.sentence != null && row.sentence !== facts.sentence) {
      this.end(row);
      row = this.current();
    }
    row.sentence = facts.sentence ?? row.sentence;
    const parts = text.match(/\s*\S+/gu) ?? [];
    const confidence = facts.confidence ?? [];
    parts.forEach((part, k) => {
      const own = confidence.length === parts.length ? confidence[k] : Math.min(...confidence, 1);
      this.addTarget(row, part, {
        read: facts.words?.length === parts.length ? facts.words[k].read : facts.source_words,
        confidence: confidence.length ? own : null,
        logProb: facts.log_prob?.length === parts.length ? facts.log_prob[k] : null,
        forced: Boolean(facts.forced),
        lag: facts.lag_ms,
        at: now,
        waits: k === 0 ? row.waits.splice(0) : [],
      });
    });
    this.mark(row, facts.source_words ?? row.source.length);
    this.follow();
  }

  waited(facts) {
    const row = this.current();
    row.waits.push({ ...facts, heard: facts.source_words ?? row.source.length });
  }

  // The server's sentence may be shorter than what was heard: the rest begins the next one.
  done(facts) {
    const row = this.row;
    if (!row) return null;
    const count = facts.source ? facts.source.trim().split(/\s+/u).length : row.source.length;
    const rest = row.source.splice(count);
    rest.forEach((word) => (word.node.remove(), word.column?.remove()));
    row.reason = facts.reason;
    row.record = facts.record;
    this.end(row);
    for (const { text, at } of rest) this.addSource(this.current(), { text, at });
    return row;
  }

  // ---- rows

  current() {
    if (this.row) return this.row;
    const number = this.rows.length + 1;
    const label = `Sentence ${number}: why did it wait?`;
    const row = { number, source: [], target: [], waits: [], read: 0, sentence: null };
    row.button = make("button", { type: "button", class: "number", "aria-label": label }, String(number));
    row.tail = make("span", { class: "tail" });
    row.sourceLine = make("p", { class: "source", ...language(this.languages[0]) }, row.tail);
    row.targetLine = make("p", { class: "target", ...language(this.languages[1]) });
    row.gloss = make("div", { class: "gloss", dir: language(this.languages[0]).dir });
    row.node = make("li", { class: "row open" }, row.button, row.sourceLine, row.targetLine, row.gloss);
    this.rows.push(row);
    this.list.append(row.node);
    return (this.row = row);
  }

  end(row) {
    row.tail.textContent = "";
    row.done = true;
    this.mark(row, row.source.length);
    row.node.classList.remove("open");
    if (this.row === row) this.row = null;
  }

  addSource(row, word) {
    word.node = make("span", { class: "s ahead" }, word.text);
    if (row.source.length) row.tail.before(" ");
    row.tail.before(word.node);
    row.source.push(word);
    if (this.layout === "timing") this.addColumn(row, word);
  }

  addTarget(row, part, facts) {
    const last = row.target.at(-1);
    if (last && !/^\s/u.test(part)) {
      last.text += part; // the rest of a word
      for (const node of [last.node, last.under]) node?.append(part);
      return;
    }
    const word = { ...facts, text: part.trim(), row };
    const paint = `w ${ink(facts.confidence)}${facts.forced ? " forced" : ""}`;
    word.node = make("span", { class: paint }, word.text);
    word.node.word = word;
    if (last) row.targetLine.append(" ");
    row.targetLine.append(word.node);
    row.target.push(word);
    if (this.layout === "timing") this.addUnder(row, word);
  }

  mark(row, read) {
    row.read = Math.max(row.read, read);
    row.source.forEach((word, k) => word.node.classList.toggle("ahead", k >= row.read && !row.done));
  }

  // ---- each word under what was heard

  addColumn(row, word) {
    const heard = make("span", { class: "source", ...language(this.languages[0]) }, word.text);
    word.under = make("span", { class: "target", ...language(this.languages[1]) });
    word.column = make("span", { class: "column" }, heard, word.under);
    row.gloss.append(word.column);
  }

  addUnder(row, word) {
    const column = row.source[Math.min(Math.max(word.read ?? 1, 1), row.source.length) - 1];
    word.under = word.node.cloneNode(true);
    word.under.word = word;
    column?.under?.append(word.under, " ");
  }

  show(layout) {
    this.layout = layout;
    this.list.dataset.layout = layout;
    for (const row of this.rows) {
      row.gloss.textContent = "";
      if (layout !== "timing") continue;
      for (const word of row.source) this.addColumn(row, word);
      for (const word of row.target) this.addUnder(row, word);
    }
    this.follow(true);
  }

  clicked(target) {
    const word = target.word ?? this.rows.find((row) => row.button === target)?.target[0];
    if (word) this.onWord(word);
  }

  // ---- text stands still until it nears the lower edge; then it glides up once by a third

  follow(at_once = false) {
    if (!this.follows) return;
    const last = this.rows.at(-1)?.node;
    if (!last) return;
    const { stage } = this;
    const over = last.getBoundingClientRect().bottom - stage.getBoundingClientRect().bottom;
    if (over < -0.14 * stage.clientHeight && !at_once) return;
    const top = stage.scrollTop + over + 0.42 * stage.clientHeight;
    if (top <= stage.scrollTop) return;
    this.gliding = performance.now() + 1200;
    stage.scrollTo({ top, behavior: calm() ? "instant" : "smooth" });
  }

  scrolled() {
    if (performance.now() < (this.gliding ?? 0)) return;
    const last = this.rows.at(-1)?.node.getBoundingClientRect();
    this.follows = !last || last.bottom < this.stage.getBoundingClientRect().bottom + 24;
    this.onFollow?.(this.follows);
  }

  newest() {
    this.follows = true;
    this.onFollow?.(true);
    this.follow(true);
  }
}

export const calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
