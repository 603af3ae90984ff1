// The dial: controls made from the knobs that the server describes, sent while they move.

import { make } from "./view.js";

const DELAY_MS = 120; // a moving slider sends a few updates a second, not sixty
const NAMES = { lower: "Head start", threshold: "Certainty" };
const WHEN = { now: "from now on", next_sentence: "from the next sentence" };

export class Dial {
	constructor(main, fold, told, send) {
		Object.assign(this, { main, fold, told, send, controls: {}, moved: {} });
	}

	// The two knobs that matter most in front, the others in the fold.
	show(knobs) {
		const box = this.fold.lastElementChild;
		this.controls = {};
		this.main.replaceChildren();
		box.replaceChildren();
		for (const knob of knobs.filter(({ range, choices }) => range?.length || choices?.length > 1)) {
			(knob.name in NAMES || knobs.length < 3 ? this.main : box).append(this.control(knob));
		}
		this.fold.hidden = !box.children.length;
	}

	control({ name, range = [0, 0], choices, default: usual, meaning = "" }) {
		const id = `knob-${name}`;
		const isWhole = range.every(Number.isInteger) && Number.isInteger(usual) && range[1] > 1;
		const step = isWhole ? 1 : 0.05;
		const output = make("output", { for: id });
		const about = { id, "aria-describedby": `${id}-about` };
		const input = choices
			? make("select", about, ...choices.map((choice) => make("option", {}, choice)))
			: make("input", { ...about, type: "range", step, min: Math.max(range[0], isWhole ? 0 : step), max: range[1] });
		input.oninput = () => this.move(name, choices ? choices[input.selectedIndex] : Number(input.value));
		this.controls[name] = { input, output, usual, isPlain: isWhole || choices };
		this.set(name, usual);
		return make("div.knob", {}, make("label", { for: id }, NAMES[name] ?? name), output, input,
			make("p.quiet", { id: `${id}-about` }, meaning));
	}

	set(name, value) {
		const { input, output, isPlain } = this.controls[name] ?? {};
		if (!input) return;
		input.value = value;
		output.textContent = isPlain ? value : value.toFixed(2);
	}

	move(name, value) {
		this.set(name, value);
		this.moved[name] = value;
		clearTimeout(this.timer);
		this.timer = setTimeout(() => {
			this.send(this.moved);
			this.moved = {};
		}, DELAY_MS);
	}

	reset() {
		for (const [name, { usual }] of Object.entries(this.controls)) this.move(name, usual);
	}

	// The server reports what it accepted, and when it applies.
	applied(values, applies) {
		for (const name in values) if (!(name in this.moved)) this.set(name, values[name]);
		const parts = Object.entries(applies).map(([name, when]) =>
			`${NAMES[name] ?? name} ${this.controls[name]?.output.textContent ?? values[name]} ${WHEN[when]}`);
		if (parts.length) this.told.textContent = `${parts.join(", ")}.`;
	}
}
