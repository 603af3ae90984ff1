"use strict";
const told = JSON.parse(document.getElementById("explanation").textContent);
const buttons = [...document.querySelectorAll("tbody .state")];
const heads = [...document.querySelectorAll("thead [data-source]")];
const detail = document.getElementById("detail");
let chosen = null;

const key = (token, state) => `${token}.${state}`;
const places = new Map(buttons.map((b) => [key(b.dataset.token, b.dataset.state), b]));

// Everything is inserted as text, never as markup: the sentence may contain anything.
function make(tag, text, parent, kind) {
  const made = document.createElement(tag);
  if (kind) made.className = kind;
  if (text !== null) { made.textContent = text; made.dir = "auto"; }
  parent.append(made);
  return made;
}

function bars(title, kind, rows, parent) {
  make("h4", title, parent);
  const list = make("dl", null, parent, "bars");
  for (const [name, share] of rows) {
    make("dt", name, list);
    const bar = make("span", null, make("dd", null, list, kind), "bar");
    make("i", null, bar).style.setProperty("--share", share);
    make("dd", share.toFixed(2), list, "number");
  }
}

function verdict(token, state) {
  if (state.role === "selected") return `written: “${token.text}”`;
  if (state.role === "rejected") return "not confident enough: the model read on";
  if (state.moment > token.reads) return "not considered: the token was already written";
  return "not considered: the token before it was written later than this";
}

function show(button) {
  const token = told.target_tokens[button.dataset.token];
  const state = token.states[button.dataset.state];
  detail.replaceChildren();
  make("h3", `Token ${Number(button.dataset.token) + 1}, “${token.text}”, after ${state.moment} source tokens`, detail);
  make("p", verdict(token, state), detail);
  if (state.confidence !== null) make("p", `Confidence ${state.confidence.toFixed(2)}`, detail, "soft");
  if (state.words.length) {
    bars("It would write", "words", state.words.map((word) => [word.text, word.probability]), detail);
  }
  if (state.attention.length) {
    const rows = state.attention.map((weight, j) => [told.source_tokens[j].text, weight]);
    bars("It looks at (cross-attention)", "looks", rows, detail);
    make("p", told.attention, detail, "soft");
  } else {
    make("p", "The attention is not known: the record was explained without its model.", detail, "soft");
  }
  const highest = Math.max(...state.attention, 1e-9);
  for (const head of heads) {
    const tokens = head.dataset.source.split(" ");
    const weight = Math.max(...tokens.map((j) => state.attention[j] || 0));
    head.style.setProperty("--weight", (weight / highest) * 0.8);
  }
}

function choose(button) {
  if (chosen) { chosen.setAttribute("aria-pressed", "false"); chosen.tabIndex = -1; }
  chosen = button;
  chosen.setAttribute("aria-pressed", "true");
  chosen.tabIndex = 0;
  show(button);
}

function neighbour(button, move) {
  if (move === "ArrowLeft" || move === "ArrowRight") {
    return buttons[buttons.indexOf(button) + (move === "ArrowRight" ? 1 : -1)];
  }
  const row = Number(button.dataset.token) + (move === "ArrowDown" ? 1 : -1);
  const distance = (b) => Math.abs(b.dataset.moment - button.dataset.moment);
  return buttons.filter((b) => Number(b.dataset.token) === row).sort((a, b) => distance(a) - distance(b))[0];
}

for (const button of buttons) {
  button.tabIndex = -1;
  button.addEventListener("click", () => choose(button));
  button.addEventListener("focus", () => choose(button));
  button.addEventListener("mouseenter", () => show(button));
  button.addEventListener("mouseleave", () => chosen && show(chosen));
  button.addEventListener("keydown", (event) => {
    if (!event.key.startsWith("Arrow")) return;
    event.preventDefault();
    neighbour(button, event.key)?.focus();
  });
}
for (const link of document.querySelectorAll("[data-shows]")) {
  const target = places.get(link.dataset.shows);
  if (!target) continue;
  link.addEventListener("click", () => {
    choose(target);
    target.scrollIntoView({ block: "center", inline: "center" });
    detail.scrollIntoView({ block: "nearest" });
  });
}
const first = document.querySelector(".waits [data-shows]");
if (buttons.length) choose((first && places.get(first.dataset.shows)) || buttons[0]);
