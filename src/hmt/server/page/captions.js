// Captions for projector and OBS: words are added to the lowest line; no line is ever reflowed.
// /captions?room=r &lines=2 &size=48 &width=42 &source=1 &bg=transparent|dark|light|green
//           &align=bottom|top|center &hide=8

import { listen } from "./room.js";
import { calm, language, make } from "./view.js";

const query = new URLSearchParams(location.search);
const whole = (name, usual, least, most) =>
	Math.min(Math.max(Number(query.get(name)) || usual, least), most);
const root = document.documentElement;
root.dataset.bg = query.get("bg") ?? "";
root.dataset.align = query.get("align") ?? "bottom";
if (query.has("size")) root.style.setProperty("--size", `${whole("size", 48, 10, 400)}px`);
root.style.setProperty("--lines", whole("lines", 2, 1, 6));

class RollUp {
	constructor(box, most) {
		Object.assign(this, { box, most, width: whole("width", 42, 10, 200) });
		root.style.setProperty("--width", `${this.width}ch`);
	}

	add(text) {
		for (const part of text.match(/\s*\S+/gu) ?? []) this.word(part);
	}

	word(part) {
		const text = part.trim();
		if (!this.line) this.roll();
		const joined = this.line.textContent && /^\s/u.test(part) ? ` ${text}` : text;
		this.line.append(joined);
		if (this.line.textContent === text || this.fits()) return;
		if (!/^\s/u.test(part)) return; // the rest of a word stays with it
		this.line.lastChild.remove();
		this.roll();
		this.line.append(text);
	}

	fits() {
		return this.line.textContent.length <= this.width && this.line.scrollWidth <= this.line.clientWidth;
	}

	roll() {
		this.line = make("p", this.language ?? {});
		this.box.append(this.line);
		while (this.box.children.length > this.most) this.box.firstChild.remove();
		if (this.box.children.length < 2 || calm()) return;
		const step = this.line.offsetHeight;
		this.box.animate([{ transform: `translateY(${step}px)` }, { transform: "none" }], { duration: 180, easing: "ease-out" });
	}

	clear() {
		this.box.textContent = "";
		this.line = null;
	}
}

const target = new RollUp(document.getElementById("lines"), whole("lines", 2, 1, 6));
const sourceBox = document.getElementById("source");
sourceBox.hidden = query.get("source") !== "1";
const source = new RollUp(sourceBox, 1);
const state = document.getElementById("state");
let quiet, seen = -1;

function write(roll, text) {
	root.classList.remove("hide");
	clearTimeout(quiet);
	if (query.has("hide")) quiet = setTimeout(() => root.classList.add("hide"), 1000 * whole("hide", 8, 1, 3600));
	roll.add(text);
}

function take(kind, event) {
	if (kind === "delta") {
		const isSource = event.track === "source";
		if (isSource && sourceBox.hidden) return;
		const { sentence } = event;
		const gap = !isSource && sentence !== seen && !/^\s/u.test(event.delta) ? " " : "";
		if (!isSource) seen = sentence;
		write(isSource ? source : target, gap + event.delta);
	} else if (kind === "snapshot") {
		target.clear();
		source.clear();
		target.language = language(event.languages?.[1]);
		source.language = language(event.languages?.[0]);
		for (const sentence of event.sentences ?? []) write(target, ` ${sentence.text}`);
		seen = event.sentences?.at(-1)?.sentence ?? -1;
	}
}

const room = query.get("room");
const say = (text) => ((state.textContent = text), (state.hidden = !text));
if (room) listen(room, take, (name) => say(name === "live" ? "" : "Offline"));
else say("This page needs the name of a room: /captions?room=name");
