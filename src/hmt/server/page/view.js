// The running text: one row per sentence, original and translation; words are placed once.

import { words } from "./client.js";

export function make(kind, attributes = {}, ...children) {
	const [tag, ...classes] = kind.split(".");
	const node = document.createElement(tag);
	node.classList.add(...classes);
	for (const key in attributes) node.setAttribute(key, attributes[key]);
	node.append(...children);
	return node;
}

const RTL = /^(ar|dv|fa|he|ku|ps|sd|ug|ur|yi)\b/u;
export const language = (code) => code ? { lang: code, dir: RTL.test(code) ? "rtl" : "ltr" } : { dir: "auto" };

export const calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

// Four inks; the palest has a contrast of 4.5:1. Without a number the ink is darkest.
const ink = (confidence) => `c${1 + [0.9, 0.75, 0.6].filter((step) => (confidence ?? 1) < step).length}`;

export class Transcript {
	constructor(stage, list, onWord) {
		Object.assign(this, { stage, list, onWord, languages: [], isTimed: false, rows: [], follows: true, gliding: 0 });
		document.addEventListener("scroll", () => this.scrolled(), { passive: true, capture: true });
		for (const own of ["pointerdown", "wheel", "keydown"]) {
			stage.addEventListener(own, () => (this.gliding = 0), { passive: true });
		}
		list.addEventListener("click", ({ target }) => {
			const word = target.word ?? this.rows.find(({ button }) => button === target)?.target[0];
			if (word) this.onWord(word);
		});
	}

	// ---- what happens

	heard(list) {
		for (const text of list) this.addSource({ text, at: performance.now() });
		this.drawn(this.row);
	}

	tentative(text) {
		if (!text && !this.row) return;
		this.current().tail.textContent = text && ` ${text}`;
		this.drawn(this.row);
	}

	wrote(text, { sentence, source_words: read, words: facts = [], confidence = [], log_prob = [], forced }) {
		if (this.row?.sentence != null && this.row.sentence !== sentence) this.end(this.row);
		const row = this.current();
		row.sentence = sentence;
		const parts = text.match(/\s*\S+/gu) ?? [];
		const each = (values, k) => (values.length === parts.length ? values[k] : undefined);
		const least = confidence.length ? Math.min(...confidence.map((value) => value ?? 1)) : null;
		const isOver = /[.!?…]$/u.test(row.source.at(-1)?.text ?? "") && read >= row.source.length; // nothing to wait for
		parts.forEach((part, k) => this.addTarget(row, part, {
			read: each(facts, k)?.read ?? read,
			confidence: each(confidence, k) ?? least,
			logProb: each(log_prob, k),
			forced: !isOver && (each(facts, k)?.forced ?? forced),
			at: performance.now(),
			waits: row.waits.splice(0),
		}));
		this.mark(row, read);
		this.drawn(row);
	}

	waited(facts) {
		const row = this.current();
		row.waits.push({ ...facts, heard: row.source.length });
	}

	// The server's sentence may be shorter than what was heard: the rest begins the next one.
	done({ source, record }) {
		const { row } = this;
		if (!row) return null;
		const own = source ? words(source) : row.source.map(({ text }) => text);
		if (row.source.length < own.length) this.heard(own.slice(row.source.length)); // joined too late to hear it
		const rest = row.source.splice(own.length);
		for (const { node } of rest) node.remove();
		row.record = record;
		this.end(row);
		for (const word of rest) this.addSource(word);
		return row;
	}

	// ---- rows

	// Rows that began before the languages were known get theirs late.
	speak(languages) {
		this.languages = languages;
		const [source, target] = this.both();
		for (const row of this.rows) {
			Object.assign(row.sourceLine, source);
			Object.assign(row.targetLine, target);
		}
	}

	both() {
		return [0, 1].map((k) => language(this.languages[k]));
	}

	current() {
		return (this.row ??= this.begin());
	}

	begin() {
		const number = this.rows.length + 1;
		const [source, target] = this.both();
		const row = { source: [], target: [], waits: [], read: 0 };
		row.button = make("button.number.bare", { "aria-label": `Sentence ${number}: why did it wait?` }, number);
		row.tail = make("span.tail");
		row.sourceLine = make("p.source", source, row.tail);
		row.targetLine = make("p.target", target);
		row.gloss = make("div.gloss");
		row.node = make("div.row.open", {}, row.button, row.sourceLine, row.targetLine, row.gloss);
		this.rows.push(row);
		this.list.append(row.node);
		return row;
	}

	end(row) {
		row.tail.textContent = "";
		this.mark(row, Infinity);
		row.node.classList.remove("open");
		this.row = null;
		this.drawn(row);
	}

	addSource(word) {
		const row = this.current();
		word.node = make("span.s.ahead", {}, word.text);
		row.tail.before(row.source.length ? " " : "", word.node);
		row.source.push(word);
	}

	addTarget(row, part, facts) {
		const last = row.target.at(-1);
		if (last && !/^\s/u.test(part)) { // the rest of a word
			last.text += part;
			return last.node.append(part);
		}
		const word = { ...facts, text: part.trim(), row };
		word.node = make(`span.w.${ink(facts.confidence)}${facts.forced ? ".forced" : ""}`, {}, word.text);
		word.node.word = word;
		row.targetLine.append(last ? " " : "", word.node);
		row.target.push(word);
	}

	// Words heard since the last write are underlined: the wait made visible.
	mark(row, read = 0) {
		row.read = Math.max(row.read, read);
		row.source.forEach(({ node }, k) => node.classList.toggle("ahead", k >= row.read));
	}

	// ---- each word under what was heard

	show(isTimed) {
		this.isTimed = this.list.classList.toggle("timed", isTimed);
		this.follows = false; // once at the end
		this.rows.forEach((row) => this.drawn(row));
		this.newest();
	}

	drawn(row) {
		if (row && this.isTimed) row.gloss.replaceChildren(...this.columns(row), row.tail.cloneNode(true));
		this.follow();
	}

	columns({ source, target, gloss }) {
		const [from, to] = this.both();
		gloss.dir = from.dir;
		const under = source.map(() => make("span.target", to));
		for (const word of target) {
			const copy = Object.assign(word.node.cloneNode(true), { word });
			under[Math.min(Math.max(word.read ?? 1, 1), under.length) - 1]?.append(copy, " ");
		}
		return source.map(({ text }, k) => make("span.column", {}, make("span.source", from, text), under[k]));
	}

	// ---- text stands still until it nears the lower edge; then it glides up once by a third

	// The box that scrolls, and its lower edge: on a low screen it is the window.
	frame() {
		const { stage } = this;
		if (getComputedStyle(stage).overflowY === "auto") return [stage, stage.getBoundingClientRect().bottom];
		return [document.scrollingElement, innerHeight - 60]; // above the field
	}

	below([, edge] = this.frame()) {
		return (this.rows.at(-1)?.node.getBoundingClientRect().bottom ?? -Infinity) - edge;
	}

	follow(least = -0.14) {
		if (!this.follows) return;
		const frame = this.frame();
		const height = frame[0].clientHeight;
		const over = this.below(frame) / height;
		if (over < least) return;
		this.gliding = performance.now() + 1200;
		frame[0].scrollBy({ top: (over + 0.42) * height, behavior: calm() ? "instant" : "smooth" });
	}

	scrolled() {
		if (performance.now() < this.gliding) return;
		this.follows = this.below() < 24;
		this.onFollow?.(this.follows);
	}

	newest() {
		this.follows = true;
		this.onFollow?.(true);
		this.follow(-0.42);
	}
}
