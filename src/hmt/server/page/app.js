import { Translator, words } from "./client.js";
import { Dial } from "./dial.js";
import { Microphone, Pace, Recognition, SAMPLES, staysLocal, typing } from "./input.js";
import { listen, roomName } from "./room.js";
import { save } from "./save.js";
import { Transcript } from "./view.js";
import { Why } from "./why.js";

const $ = (id) => document.getElementById(id);
const all = (selector) => document.querySelectorAll(selector);
const { body, documentElement: root } = document;
const query = new URLSearchParams(location.search);
// The hash is never sent to the server; a link to a room has its token in the query.
const token = new URLSearchParams(location.hash.slice(1)).get("token") ?? query.get("token");
const zero = performance.now();
const TRACE = 120; // quarters of a second

let live;
let threshold = 0.5;
let pasted = false;

const transcript = new Transcript($("stage"), $("rows"), (word) => {
	why.show(word);
	openRail("why");
	if ($("tune").offsetParent) word.row.node.scrollIntoView(); // the sheet would cover it
	else $("why").scrollIntoView({ block: "nearest" });
});
const why = new Why($("why-body"), transcript, () => threshold);
transcript.onFollow = (follows) => ($("newest").hidden = follows);
$("newest").onclick = () => transcript.newest();

const shown = {
	heard: (list) => transcript.heard(list),
	tentative: (text) => transcript.tentative(text),
	delta: (text, facts) => transcript.wrote(text, facts),
	waiting: (facts) => transcript.waited(facts),
	done: (facts) => {
		const row = transcript.done(facts);
		if (row && $("aloud").checked) $("announce").textContent = row.targetLine.textContent;
	},
};

// ---- messages and state

const STATES = {
	connecting: "Connecting", live: "Connected", waiting: "Not connected, trying again", closed: "Ended",
	listening: "Listening", away: "The speaker is away",
};

function state(name, text = STATES[name]) {
	body.dataset.state = name;
	$("state").textContent = text;
}

let fading;

function say(text, seconds) {
	clearTimeout(fading);
	$("message").hidden = !text;
	$("message").firstElementChild.textContent = text;
	if (seconds) fading = setTimeout(say, 1000 * seconds, "");
}
$("message").lastElementChild.onclick = () => say("");

function connect(room) {
	live?.close();
	const settings = { detail: true, knobs: { ...live?.settings.knobs } };
	const own = (live = new Translator({ model: query.get("model"), room, token, settings }));
	for (const name in shown) own.on(name, shown[name]);
	own.on("state", (name, detail) => {
		if (own !== live) return;
		state(name);
		if (detail === 4408 || detail === 1000) say("The session has ended; the next word starts a new one.");
		if (detail === 4409) say("The session continues in another window.");
		if (name !== "live") return;
		say("");
		if (room) share(room, own.session.hmt.room_token);
	})
		.on("notice", ({ code, message }) => code === "early_end" || say(message, 8))
		.on("problem", (message) => say(message))
		.on("updated", ({ hmt: { knobs } }, applies) => {
			threshold = knobs.threshold ?? threshold;
			dial.applied(knobs, applies);
		})
		.connect();
}

// ---- the dial; on a narrow screen its rail is a sheet

const dial = new Dial($("knobs"), $("more-knobs"), $("applies"), (knobs) => live.update({ knobs }));
$("reset").onclick = () => dial.reset();

let opener;

function openRail(part) {
	const isInside = $("rail").contains(document.activeElement);
	if (!isInside) opener = document.activeElement;
	$("rail").dataset.open = part;
	$("tune").ariaExpanded = part === "dial";
	if (part) $("rail-close").focus(); // visible only where the rail is a sheet
	else if (isInside) opener?.focus({ preventScroll: true });
}
$("tune").onclick = () => openRail($("rail").dataset.open === "dial" ? "" : "dial");
$("rail-close").onclick = () => openRail("");

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

const pace = new Pace((list) => live.append(list), () => live.unanswered.length < 3, ({ playing, queue }) => {
	for (const button of all("[data-do=play]")) button.firstChild.data = playing ? "Pause" : "Play";
	$("hint").hidden = queue.length && pasted;
	$("queue").hidden = !$("hint").hidden;
	$("queue").firstElementChild.textContent = `${queue.length} words to come`;
});

function play() {
	if (pace.playing) return pace.pause();
	if (pace.queue.length) return pace.play();
	pasted = false;
	pace.add(words(SAMPLES[transcript.languages[0]]));
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
		$("mic").ariaPressed = on;
		if (on) awake();
	},
	// the server decides which words of a guess are final
	hears: (on) => {
		if (!on) live.commit("pause");
		live.update({ echo: on });
	},
	problem: (text) => say(text),
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

addEventListener("click", ({ target }) => {
	const { do: task, copy, save: kind } = target.closest("button")?.dataset ?? {};
	if (task === "play") play();
	if (task === "mic") speak();
	if (kind) save(kind, transcript.rows, zero);
	if (!copy) return;
	$(copy).select();
	navigator.clipboard?.writeText($(copy).value).then(() => (target.textContent = "Copied"));
});

addEventListener("keydown", (event) => {
	const { key, target, ctrlKey, metaKey, altKey } = event;
	if (key === "Escape") openRail("");
	if (!$("keys").checked || ctrlKey || metaKey || altKey || target.closest("input, select, dialog, [popover]")) return;
	const tasks = { "?": () => $("view").showPopover(), "/": () => $("word").focus(), p: play };
	if (!tasks[key] || query.has("listen")) return;
	event.preventDefault();
	tasks[key]();
});

addEventListener("input", ({ target: { id, value, checked } }) => {
	if (id === "timing") transcript.show(checked);
	if (id === "show-source") $("rows").classList.toggle("alone", !checked);
	if (id === "theme") root.dataset.theme = value;
	if (id === "size") root.style.setProperty("--scale", value);
	if (id === "theme" || id === "size") localStorage.setItem(`hmt.${id}`, value); // last: storage may be forbidden
});
$("size").value = root.style.getPropertyValue("--scale") || 1;
$("theme").value = root.dataset.theme ?? "auto";

// A link carries a token for listening alone, never the speaker's own.
function share(room, guest) {
	const link = (path) => new URL(`${path}${encodeURIComponent(room)}${guest ? `&token=${guest}` : ""}`, document.baseURI).href;
	$("link-listen").value = link("?listen=");
	$("link-captions").value = link("captions?room=");
	$("share-make").hidden = true;
	$("share-links").hidden = false;
	$("loopback").hidden = !/^(localhost|127\.|\[::1)/u.test(location.hostname);
}
$("make-room").onclick = () => {
	const room = roomName();
	query.set("room", room);
	history.replaceState(null, "", `?${query}${location.hash}`); // reloading stays in the same room
	share(room);
	$("link-listen").focus();
	connect(room);
};

function follow(room) {
	body.classList.add("listener");
	$("welcome").querySelector("h2").textContent = "The translation appears here while somebody speaks.";
	listen(room, { ...shown, state }, query.get("lang"));
	awake();
	document.onvisibilitychange = awake;
}

const named = (code) => new Intl.DisplayNames("en", { type: "language" }).of(code);

function choose({ hmt: { source_language: from, target_language: to, knobs } }) {
	transcript.speak([from, to]);
	dial.show(knobs);
	$("pair").textContent = `${named(from)} → ${named(to)}`;
	$("word").placeholder = $("word").ariaLabel = `Type ${named(from)}`;
	body.classList.toggle("mute", !SAMPLES[from]);
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
