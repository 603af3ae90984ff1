// The dial: controls made from the knobs that the server describes, sent while they move.

import { make } from "./view.js";

const DELAY_MS = 120; // a slider that moves sends a few updates a second, not sixty
const NAMES = { lower: "Head start", threshold: "Certainty" };
const WHEN = { now: "from now on", next_sentence: "from the next sentence" };

const number = (value) => (Number.isInteger(value) ? String(value) : value.toFixed(2));

export class Dial {
  constructor(main, fold, told, send) {
    Object.assign(this, { main, fold, told, send, knobs: [], controls: new Map(), moved: {} });
  }

  show(knobs) {
    this.knobs = knobs;
    this.controls.clear();
    const box = this.fold.querySelector("div");
    this.main.textContent = box.textContent = "";
    const numbers = knobs.filter((knob) => !knob.choices);
    const first = numbers.filter((knob) => knob.name in NAMES);
    const shown = new Set(first.length ? first : numbers.slice(0, 2));
    for (const knob of knobs) (shown.has(knob) ? this.main : box).append(this.control(knob));
    this.fold.hidden = shown.size === knobs.length;
  }

  control(knob) {
    const id = `knob-${knob.name}`;
    const output = make("output", { for: id });
    const input = knob.choices
      ? make("select", { id }, ...knob.choices.map((choice) => make("option", {}, choice)))
      : make("input", { id, type: "range", min: knob.least, max: knob.most, step: knob.step });
    input.setAttribute("aria-describedby", `${id}-about`);
    input.addEventListener("input", () => this.move(knob, input.value));
    const label = make("label", { for: id }, NAMES[knob.name] ?? knob.name);
    const about = make("p", { id: `${id}-about`, class: "quiet" }, knob.meaning ?? "");
    const ends = make("p", { class: "ends", "aria-hidden": "true" }, make("span", {}, "sooner"), make("span", {}, "surer"));
    this.controls.set(knob.name, { input, output, knob });
    this.set(knob.name, knob.value);
    const rest = knob.name in NAMES ? [ends] : [];
    return make("div", { class: "knob" }, label, output, input, ...rest, about);
  }

  set(name, value) {
    const control = this.controls.get(name);
    if (!control || value == null) return;
    control.input.value = value;
    control.output.textContent = control.knob.choices ? "" : number(Number(value));
    control.input.setAttribute("aria-valuetext", control.output.textContent);
  }

  move(knob, raw) {
    const value = knob.choices ? raw : Number(raw);
    this.set(knob.name, value);
    this.moved[knob.name] = value;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.flush(), DELAY_MS);
  }

  flush() {
    const moved = this.moved;
    this.moved = {};
    this.send(moved);
  }

  reset() {
    for (const { name, value } of this.knobs) {
      this.set(name, value);
      this.moved[name] = value;
    }
    this.flush();
  }

  // The server says what it took, and from when.
  applied(values, applies) {
    for (const [name, value] of Object.entries(values)) {
      if (!(name in this.moved)) this.set(name, value);
    }
    const parts = Object.entries(applies).map(([name, when]) => {
      const { output } = this.controls.get(name) ?? {};
      return `${NAMES[name] ?? name} ${output?.textContent || values[name]} ${WHEN[when] ?? when}`;
    });
    if (parts.length) this.told.textContent = `${parts.join(", ")}.`;
  }
}

// Knobs as `/v1/models` describes them, a list or a table, in one form.
export function knobsOf(model) {
  const described = model?.hmt?.knobs ?? {};
  const list = Array.isArray(described)
    ? described
    : Object.entries(described).map(([name, facts]) => ({ name, ...facts }));
  return list.map((facts) => {
    const [least, most] = facts.range ?? [facts.minimum, facts.maximum];
    const whole = Number.isInteger(facts.default) && Number.isInteger(least ?? 1) && facts.type !== "number";
    const choices = facts.choices ?? facts.enum ?? (typeof facts.default === "string" ? [facts.default] : null);
    return {
      name: facts.name, value: facts.default, choices, meaning: facts.meaning ?? facts.description,
      least: whole ? least ?? 1 : Math.max(least ?? 0.05, 0.05), most: most ?? (whole ? 10 : 1),
      step: whole ? 1 : 0.05,
    };
  });
}
