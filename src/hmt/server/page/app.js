// The page: input, dial, text, room; everything it knows comes from the server's events.

import { Translator } from "./client.js";
import { Dial, knobsOf } from "./dial.js";
import { Microphone, Pace, Recognition, samplesFor, staysLocal, typing } from "./input.js";
import { listen, roomName } from "./room.js";
import { save } from "./save.js";
import { make, Transcript } from "./view.js";
import { Why } from "./why.js";

const $ = (id) => document.getElementById(id);
const query = new URLSearchParams(location.search);
const zero = performance.now();
const TRACE_SECONDS = 30;
const PAUSE_MS = 5000; // people who type think longer than people who speak breathe

let live = null;
let model = null;
let threshold = 0.5;

// ---- the text

const transcript = new Transcript($("stage"), $("rows"), (word) => {
  why.show(word);
  openRail(true);
});
const why = new Why($("why-body"), transcript, () => threshold);
transcript.onFollow = (follows) => ($("newest").hidden = follows);
$("newest").onclick = () => transcript.newest();

function begin() {
  $("welcome").hidden = true;
}

function finished(facts) {
  const row = transcript.done(facts);
  if (row && $("aloud").checked) $("announce").textContent = row.target.map((word) => word.text).join(" ");
}

// ---- messages and state

const STATES = {
  connecting: "Connecting", live: "Connected", waiting: "Connection lost, trying again", closed: "Ended", listening: "Listening",
};

function state(name, text = STATES[name]) {
  document.body.dataset.state = name;
  $("state-text").textContent = text;
}

function say(text) {
  $("message").hidden = !text;
  $("message").firstElementChild.textContent = text;
}
$("message").lastElementChild.onclick = () => say("");

// ---- a session

function connect(room) {
  live?.close();
  live = new Translator({
    model: model?.id, room, settings: { granularity: "word", detail: true, sentences: "auto", pause_ms: PAUSE_MS, ...(live && { knobs: live.settings.knobs ?? {} }) },
  });
  const own = live;
  live
    .on("state", (name, detail) => {
      if (own !== live) return;
      if (name === "closed") state(name, detail || STATES.closed);
      else state(name);
      if (name === "live") say("");
    })
    .on("heard", (list) => (begin(), transcript.heard(list)))
    .on("tentative", (text) => text ? (begin(), transcript.tentative(text)) : transcript.tentative(""))
    .on("delta", (text, facts) => (begin(), transcript.wrote(text, facts)))
    .on("done", finished)
    .on("waiting", (facts) => transcript.waited(facts))
    .on("updated", (session, applies) => took(session.hmt?.knobs ?? {}, applies))
    .on("notice", ({ code, message }) => code !== "early_end" && say(message))
    .on("problem", say);
  live.connect();
}

function took(knobs, applies) {
  threshold = knobs.threshold ?? threshold;
  dial.applied(knobs, applies);
}

// ---- the dial

const dial = new Dial($("knobs"), $("more-knobs"), $("applies"), (knobs) => live?.update({ knobs }));
$("reset").onclick = () => dial.reset();

// On a narrow screen the rail is a sheet that comes and goes.
function openRail(open) {
  $("rail").classList.toggle("open", open);
  $("tune").ariaExpanded = String(open);
}
$("tune").onclick = () => {
  openRail(!$("rail").classList.contains("open"));
  if ($("rail").classList.contains("open")) $("rail-close").focus();
};
$("rail-close").onclick = () => (openRail(false), $("tune").focus());

// ---- how far behind the speaker

const trace = [];

function lag() {
  const row = transcript.row;
  const heard = row?.source.length ?? 0;
  const written = Math.min(row?.target.length ?? 0, heard);
  const seconds = written < heard ? (performance.now() - row.source[written].at) / 1000 : 0;
  $("lag-words").textContent = heard - written;
  $("lag-seconds").textContent = seconds.toFixed(1);
  trace.push(heard - written);
  if (trace.length > 4 * TRACE_SECONDS) trace.shift();
  const most = Math.max(8, ...trace);
  const points = trace.map((value, k) => `${240 - 2 * (trace.length - 1 - k)},${38 - (36 * value) / most}`);
  $("trace").firstElementChild.setAttribute("points", points.join(" "));
}

// ---- input

const pace = new Pace((word) => live.append([word]), ({ playing, queue }) => {
  for (const button of document.querySelectorAll("[data-do=play]")) {
    button.textContent = playing ? "Pause" : button.id ? "Play" : "Play a sample";
  }
  document.body.classList.toggle("playing", playing);
  $("queue").hidden = !queue.length || !pasted;
  $("hint").hidden = !$("queue").hidden;
  $("queue").firstElementChild.textContent = `${queue.length} words to come`;
});
let pasted = false;

function play() {
  if (pace.playing) return pace.pause();
  begin();
  if (pace.queue.length) return pace.play();
  pasted = false;
  pace.add($("sample").value.split(" "));
}

typing($("word"), {
  give: (list) => live.append(list),
  paste: (list) => ((pasted = true), pace.add(list)),
  end: (list) => {
    if (list.length) live.append(list);
    live.commit();
  },
});
$("speed").onchange = ({ target }) => (pace.speed = Number(target.value));
$("faster").onclick = () => pace.hurry();
$("drop").onclick = () => pace.stop();

const microphone = new Microphone({
  guess: (text, utterance, final) => {
    live.hypothesis(text, utterance, final ? text.split(/\s+/u).length : undefined);
    if (final) live.commit("pause");
  },
  changed: (on) => {
    $("mic").ariaPressed = String(on);
    $("mic").textContent = on ? "Stop" : "Microphone";
    live.update({ echo: on });
    if (on) navigator.wakeLock?.request("screen").catch(() => {});
  },
  problem: say,
});

async function speak() {
  if (microphone.on) return microphone.stop();
  const lang = transcript.languages[0] ?? "";
  const local = await staysLocal(lang);
  if (!local && !speak.allowed) {
    $("consent-text").textContent =
      "Your browser turns speech into text. It may send what you say to its maker, which in Chrome is Google and in Safari Apple. This server receives the text alone, never the sound.";
    $("consent").showModal();
    await new Promise((resolve) => $("consent").addEventListener("close", resolve, { once: true }));
    if ($("consent").returnValue !== "yes") return;
    speak.allowed = true;
  }
  microphone.start(lang, local);
}

document.addEventListener("click", ({ target }) => {
  const { do: task, copy, save: kind } = target.closest?.("button")?.dataset ?? {};
  if (task === "play") play();
  if (task === "mic") speak();
  if (kind) save(kind, transcript.rows, zero);
  if (copy) navigator.clipboard.writeText($(copy).value).then(() => (target.textContent = "Copied"), () => $(copy).select());
});

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") openRail(false);
  const busy = event.target.closest("input, select, textarea, dialog, [popover]");
  if (!$("keys").checked || busy || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "?") $("view").showPopover();
  else if (event.key === "/") $("word").focus();
  else if (event.key === "p" && !query.has("listen")) play();
  else return;
  event.preventDefault();
});

// ---- view

function remember(name, value) {
  try {
    localStorage.setItem(`hmt.${name}`, value);
  } catch { /* storage is forbidden: chosen anew each time */ }
}

document.addEventListener("change", ({ target }) => {
  if (target.name === "layout") transcript.show(target.value);
  if (target.name === "theme") {
    document.documentElement.dataset.theme = target.value;
    remember("theme", target.value);
  }
  if (target.id === "show-source") $("rows").classList.toggle("alone", !target.checked);
});
$("size").oninput = ({ target }) => document.documentElement.style.setProperty("--scale", target.value);
const theme = document.querySelector(`[name=theme][value=${document.documentElement.dataset.theme ?? "auto"}]`);
if (theme) theme.checked = true;

// ---- rooms

function share(room) {
  const link = (page, name) => Object.assign(new URL(page, document.baseURI), { search: `${name}=${encodeURIComponent(room)}`, hash: "" }).href;
  $("link-listen").value = link(".", "listen");
  $("link-captions").value = link("captions", "room");
  $("share-note").textContent = `Room ${room}. Add &bg=transparent, &lines=3 or &size=64 to the captions' address.`;
  $("share-make").hidden = true;
  $("share-links").hidden = false;
}
$("make-room").onclick = () => {
  const room = roomName();
  share(room);
  $("link-listen").focus();
  connect(room);
};

function follow(room) {
  document.body.classList.add("listener");
  $("welcome").hidden = true;
  state("connecting");
  let shown = -1;
  listen(room, (kind, event) => {
    if (kind === "delta" && event.track === "source") transcript.heard(event.delta.trim().split(/\s+/u));
    else if (kind === "delta") transcript.wrote(event.delta, event);
    else if (kind === "tentative") transcript.tentative(event.text);
    else if (kind === "sentence" && event.sentence > shown) {
      shown = event.sentence;
      finished(event);
    } else if (kind === "state") state(event.state === "waiting" ? "waiting" : "listening", event.state === "waiting" ? "The speaker is away" : STATES.listening);
  }, (name) => state(name === "live" ? "listening" : name));
  navigator.wakeLock?.request("screen").catch(() => {});
}

// ---- start

const named = (code) => (code && new Intl.DisplayNames("en", { type: "language" }).of(code)) || code;

async function models() {
  try {
    const answer = await fetch(new URL("v1/models", document.baseURI));
    if (answer.ok) return (await answer.json()).data ?? [];
  } catch { /* told below */ }
  say("The server does not answer; the page tries again by itself.");
  return [];
}

function choose(chosen) {
  model = chosen;
  const [from, to] = model.hmt?.languages ?? [];
  transcript.languages = [from, to];
  const arrow = make("span", { class: "arrow", role: "img", "aria-label": "to" });
  if (from) $("pair").replaceChildren(named(from), arrow, named(to));
  $("word").placeholder = from ? `Type ${named(from)}` : "Type";
  $("word-label").textContent = from ? `Your words in ${named(from)}` : "Your words";
  const samples = samplesFor(from);
  $("sample").replaceChildren(...samples.map(([name, text]) => make("option", { value: text }, name)));
  document.body.classList.toggle("mute", !samples.length);
  dial.show(knobsOf(model));
}

async function start() {
  const known = await models();
  if (known.length) choose(known.find(({ id }) => id === query.get("model")) ?? known[0]);
  if (query.has("listen")) return follow(query.get("listen"));
  for (const button of document.querySelectorAll("[data-do=mic]")) button.hidden = !Recognition;
  const room = query.get("room");
  if (room) share(room);
  connect(room ?? undefined);
  setInterval(lag, 250);
  if (!matchMedia("(pointer: coarse)").matches) $("word").focus();
}

start();
