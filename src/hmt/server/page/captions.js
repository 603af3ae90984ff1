// Captions for projector and OBS: words are added to the lowest line; no line is ever reflowed.

import { listen } from "./room.js";
import { calm, language, make } from "./view.js";

const $ = (id) => document.getElementById(id);
const query = new URLSearchParams(location.search);
const root = document.documentElement;
const number = (name, usual, least, most) => Math.min(Math.max(Number(query.get(name)) || usual, least), most);
const lines = number("lines", 2, 1, 6);
const width = number("width", 42, 10, 200);

root.dataset.bg = query.get("bg") ?? "";
root.style.setProperty("--align", { top: "start", center: "center" }[query.get("align")] ?? "end");
root.style.setProperty("--lines", lines);
root.style.setProperty("--width", `${0.86 * width}ch`); // most letters are narrower than 0
if (query.has("size")) root.style.setProperty("--size", `${number("size", 48, 10, 400)}px`);

class RollUp {
	constructor(box, most) {
		Object.assign(this, { box, most });
	}

	add(text, attributes) {
		for (const part of text.match(/\s*\S+/gu) ?? []) this.word(part, attributes);
	}

	word(part, attributes) {
		this.line ??= this.roll(attributes);
		const isRest = !/^\s/u.test(part); // of a word, which stays together
		this.line.append(this.line.textContent && !isRest ? ` ${part.trim()}` : part.trim());
		if (isRest || this.line.childNodes.length < 2 || this.fits()) return;
		this.line.lastChild.remove();
		this.line = this.roll(attributes);
		this.line.append(part.trim());
	}

	fits() {
		const { textContent, scrollWidth, clientWidth } = this.line;
		return [...textContent].length <= width && scrollWidth <= clientWidth;
	}

	roll(attributes) {
		const line = make("p", attributes);
		this.box.append(line);
		if (this.box.children.length > this.most) {
			this.box.firstChild.remove();
			const step = `translateY(${line.offsetHeight}px)`;
			if (!calm()) this.box.animate({ transform: [step, "none"] }, { duration: 180, easing: "ease-out" });
		}
		return line;
	}
}

const target = new RollUp($("lines"), lines);
const source = new RollUp($("source"), 1);
$("source").hidden = query.get("source") !== "1";
let last, silence;

function stir() {
	root.classList.remove("hide");
	clearTimeout(silence);
	if (query.has("hide")) silence = setTimeout(() => root.classList.add("hide"), 1000 * number("hide", 8, 1, 3600));
}

function say(text) {
	$("state").textContent = text;
	$("state").hidden = !text;
}

if (!query.get("room")) say("This page needs the name of a room: /captions?room=name");
else listen(query.get("room"), {
	heard: (list) => source.add(` ${list.join(" ")}`, { dir: "auto" }),
	delta: (text, { sentence, track }) => {
		stir();
		target.add(sentence === last ? text : ` ${text}`, language(track));
		last = sentence;
	},
	state: (name) => say(name === "waiting" ? "Offline" : ""),
}, query.get("lang"));
