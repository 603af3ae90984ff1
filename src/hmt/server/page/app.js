// The page: input, dial, text, room; all it knows comes from the server's events.

import { Translator, words } from "./client.js";
import { Dial } from "./dial.js";
import { Microphone, Pace, Recognition, samples, staysLocal, typing } from "./input.js";
import { listen, roomName } from "./room.js";
import { save } from "./save.js";
import { make, Transcript } from "./view.js";
import { Why } from "./why.js";

const $ = (id) => document.getElementById(id);
const all = (selector) => document.querySelectorAll(selector);
const { body, documentElement: root } = document;
const query = new URLSearchParams(location.search);
// In the hash it is never sent as an address; that of a link to a room may be.
const token = new URLSearchParams(location.hash.slice(1)).get("token") ?? query.get("token");
const zero = performance.now();
const TRACE = 120; // quarters of a second

let live;
let threshold = 0.5;
let pasted = false;

const transcript = new Transcript($("stage"), $("rows"), (word) => {
	why.show(word);
	openRail(true);
	if ($("tune").offsetParent) word.node.scrollIntoView(); // the sheet would cover it
	$("why").scrollIntoView({ block: "nearest" });
});
const why = new Why($("why-body"), transcript, () => threshold);
transcript.onFollow = (follows) => ($("newest").hidden = follows);
$("newest").onclick = () => transcript.newest();

function finished(facts) {
	const row = transcript.done(facts);
	if (row && $("aloud").checked) $("announce").textContent = row.target.map(({ text }) => text).join(" ");
}

// ---- messages and state

const STATES = {
	connecting: "Connecting", live: "Connected", waiting: "Not connected, trying again", closed: "Ended",
	listening: "Listening", away: "The speaker is away",
};

function state(name, text = STATES[name]) {
	body.dataset.state = name;
	$("state").textContent = text;
}

function say(text) {
	$("message").hidden = !text;
	$("message").firstElementChild.textContent = text;
}
$("message").lastElementChild.onclick = () => say("");

function connect(room) {
	live?.close();
	const settings = { detail: true, knobs: { ...live?.settings.knobs } };
	const own = (live = new Translator({ model: query.get("model"), room, token, settings }));
	own.on("state", (name, detail) => {
		if (own !== live) return;
		state(name);
		if (detail === 4408 || detail === 1000) say("The session has ended; the next word begins a new one.");
		if (detail === 4409) say("The session goes on in another window.");
		if (name !== "live") return;
		say("");
		if (room) share(room, own.session.hmt.room_token);
	})
		.on("heard", (list) => transcript.heard(list))
		.on("tentative", (text) => transcript.tentative(text))
		.on("delta", (text, facts) => transcript.wrote(text, facts))
		.on("done", finished)
		.on("waiting", (facts) => transcript.waited(facts))
		.on("notice", ({ code, message }) => {
			if (code === "early_end") return;
			say(message);
			setTimeout(say, 8000, "");
		})
		.on("problem", say)
		.on("updated", ({ hmt: { knobs } }, applies) => {
			threshold = knobs.threshold ?? threshold;
			dial.applied(knobs, applies);
		})
		.connect();
}

// ---- the dial; on a narrow screen its rail is a sheet that comes and goes

const dial = new Dial($("knobs"), $("more-knobs"), $("applies"), (knobs) => live.update({ knobs }));
$("reset").onclick = () => dial.reset();

function openRail(open) {
	$("rail").classList.toggle("open", open);
	$("tune").ariaExpanded = String(open);
}
$("tune").onclick = () => {
	openRail($("tune").ariaExpanded !== "true");
	$("rail-close").focus();
};
$("rail-close").onclick = () => {
	openRail(false);
	$("tune").focus();
};

// ---- how far behind the speaker

const trace = [];

function lag() {
	const { source, target } = transcript.row ?? { source: [], target: [] };
	const behind = Math.max(source.length - target.length, 0);
	const since = behind ? performance.now() - source[target.length].at : 0;
	$("lag-words").textContent = behind;
	$("lag-seconds").textContent = (since / 1000).toFixed(1);
	trace.push(behind);
	if (trace.length > TRACE) trace.shift();
	const scale = 36 / Math.max(8, ...trace);
	const points = trace.map((value, k) => [2 * (TRACE - trace.length + k), 38 - scale * value]);
	$("trace").firstElementChild.setAttribute("points", points.join(" "));
}

const pace = new Pace((word) => live.append([word]), ({ playing, queue }) => {
	for (const button of all("[data-do=play]")) button.firstChild.data = playing ? "Pause" : "Play";
	$("queue").hidden = !queue.length || !pasted;
	$("hint").hidden = !$("queue").hidden;
	$("queue").firstElementChild.textContent = `${queue.length} words to come`;
});

function play() {
	if (pace.playing) return pace.pause();
	if (pace.queue.length) return pace.play();
	pasted = false;
	pace.add(words($("sample").value));
}

typing($("word"), {
	give: (list) => live.append(list),
	paste: (list) => {
		pasted = true;
		pace.add(list);
	},
	end: () => live.commit("enter"),
});
$("speed").onchange = ({ target }) => (pace.speed = Number(target.value));
$("faster").onclick = () => pace.hurry();
$("drop").onclick = () => pace.stop();

const awake = () => navigator.wakeLock?.request("screen").catch(() => {});

const microphone = new Microphone({
	guess: (text, utterance, isFinal) => {
		live.hypothesis(text, utterance, isFinal ? words(text).length : undefined);
		if (isFinal) live.commit("pause");
	},
	changed: (on) => {
		$("mic").ariaPressed = String(on);
		$("mic").textContent = on ? "Stop" : "Microphone";
		live.update({ echo: on }); // which words of a guess are final, the server decides
		if (on) awake();
	},
	problem: say,
});

async function speak() {
	if (microphone.on) return microphone.stop();
	const lang = transcript.languages[0] ?? "";
	const local = await staysLocal(lang);
	if (!local && $("consent").returnValue !== "yes") {
		$("consent").showModal();
		await new Promise((resolve) => ($("consent").onclose = resolve));
		if ($("consent").returnValue !== "yes") return;
	}
	microphone.start(lang, local);
}

document.addEventListener("click", ({ target }) => {
	const { do: task, copy, save: kind } = target.closest("button")?.dataset ?? {};
	if (task === "play") play();
	if (task === "mic") speak();
	if (kind) save(kind, transcript.rows, zero);
	if (copy) navigator.clipboard?.writeText($(copy).value).then(() => (target.textContent = "Copied"));
	if (copy) $(copy).select();
});

document.addEventListener("keydown", (event) => {
	const { key, target, ctrlKey, metaKey, altKey } = event;
	if (key === "Escape") openRail(false);
	if (!$("keys").checked || ctrlKey || metaKey || altKey || target.closest("input, select, dialog, [popover]")) return;
	const tasks = { "?": () => $("view").showPopover(), "/": () => $("word").focus(), p: play };
	if (!tasks[key] || query.has("listen")) return;
	event.preventDefault();
	tasks[key]();
});

document.addEventListener("change", ({ target: { name, id, value, checked } }) => {
	if (name === "layout") transcript.show(value);
	if (id === "show-source") $("rows").classList.toggle("alone", !checked);
	if (name !== "theme") return;
	root.dataset.theme = value;
	try {
		localStorage.setItem("hmt.theme", value);
	} catch { /* storage is forbidden */ }
});
$("size").oninput = ({ target }) => root.style.setProperty("--scale", target.value);
for (const radio of all("[name=theme]")) radio.checked = radio.value === (root.dataset.theme ?? "auto");

// A link carries a token for listening alone, never the speaker's own.
function share(room, guest) {
	const link = (path) => new URL(`${path}${encodeURIComponent(room)}${guest ? `&token=${guest}` : ""}`, document.baseURI).href;
	$("link-listen").value = link("?listen=");
	$("link-captions").value = link("captions?room=");
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
	body.classList.add("listener");
	listen(room, {
		heard: (list) => transcript.heard(list),
		tentative: (text) => transcript.tentative(text),
		wrote: (text, facts) => transcript.wrote(text, facts),
		done: finished,
		state,
	}, query.get("lang") ?? undefined);
	awake();
}

const named = (code) => new Intl.DisplayNames("en", { type: "language" }).of(code);

function choose({ hmt: { source_language: from, target_language: to, knobs } }) {
	transcript.speak([from, to]);
	dial.show(knobs);
	$("pair").replaceChildren(named(from), make("span.arrow", { role: "img", "aria-label": "to" }), named(to));
	$("word").placeholder = $("word").ariaLabel = `Type ${named(from)}`;
	$("sample").replaceChildren(...samples(from).map(([name, text]) => make("option", { value: text }, name)));
	body.classList.toggle("mute", !$("sample").length);
}

async function describe() {
	const headers = token ? { Authorization: `Bearer ${token}` } : {};
	const answer = await fetch("v1/models", { headers }).then((found) => found.json(), () => null);
	if (!answer) return setTimeout(describe, 3000);
	if (answer.error) return say("This page needs a token: open it as /#token=…");
	choose(answer.data.find(({ id }) => id === query.get("model")) ?? answer.data[0]);
}

describe();
const room = query.get("room");
if (room) share(room);
if (query.has("listen")) follow(query.get("listen"));
else {
	connect(room);
	setInterval(lag, 250);
	for (const button of all("[data-do=mic]")) button.hidden = !Recognition;
	if (matchMedia("(pointer: fine)").matches) $("word").focus();
}
