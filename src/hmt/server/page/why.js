// What had been heard when a word was written, and how confident the model was.

import { make } from "./view.js";

const percent = (share) => `${Math.round(100 * share)} %`;

export class Why {
	constructor(box, transcript, threshold) {
		Object.assign(this, { box, transcript, threshold });
	}

	show(word) {
		const { row } = word;
		this.word?.node.classList.remove("chosen");
		word.node.classList.add("chosen");
		for (const { row: changed } of [this.word ?? word, word]) this.transcript.drawn(changed);
		this.word = word;
		const at = row.target.indexOf(word);
		const heard = row.source.map(({ text }) => text);
		const read = Math.min(word.read ?? heard.length, heard.length);
		const [source, target] = this.transcript.both();
		const { moments, limit } = this.moments(word, at, read);
		this.box.replaceChildren(
			make("div.step", {}, this.step("Previous word", "←", row.target[at - 1]),
				make("p.picked", target, word.text), this.step("Next word", "→", row.target[at + 1])),
			make("p.heard", source, make("b", {}, heard.slice(0, read).join(" ")),
				make("span.hidden", {}, " – written here – "), heard.slice(read).join(" ")),
			make("ol.bars", {}, ...moments.map(([count, confidence], k) =>
				this.bar(make("span", source, `… ${heard[count - 1] ?? ""}`), confidence, limit, k === moments.length - 1, word.forced))),
			make("p.quiet", {}, this.summary(word, read, moments.length - 1, limit)));
	}

	step(label, arrow, word) {
		const button = make("button.bare", { "aria-label": label }, arrow);
		button.disabled = !word;
		button.onclick = () => {
			this.show(word);
			this.box.querySelector(`[aria-label="${label}"]:enabled, .step button:enabled`)?.focus();
		};
		return button;
	}

	// Words heard and confidence at each moment up to the one that wrote it. A finished sentence has a record.
	moments(word, at, read) {
		const { record, target } = word.row;
		const limit = record?.settings?.threshold ?? word.waits.at(-1)?.threshold ?? this.threshold();
		if (record?.moments?.length && record.target_word_ends.length === target.length) {
			const token = at ? record.target_word_ends[at - 1] + 1 : 0;
			const ends = record.source_word_ends;
			const begun = (tokens) => ends.filter((_, k) => (k ? ends[k - 1] + 1 : 0) < tokens).length;
			const all = record.moments[token].map((moment, k) => [begun(moment), record.confidences[token][k], moment]);
			const [from, to] = [record.reads[token - 1] ?? 0, record.reads[token]]; // not before the last word
			return { limit, moments: all.filter(([, , moment]) => moment >= from && moment <= to) };
		}
		const waits = word.waits.map(({ heard, confidence }) => [heard, confidence]);
		return { limit, moments: [...waits, [read, word.confidence ?? 1]] };
	}

	bar(after, confidence, limit, wrote, forced) {
		const bar = make("span.bar", { "aria-hidden": "true" }, make("i"), make("em"));
		bar.style.setProperty("--share", confidence);
		bar.style.setProperty("--limit", limit);
		return make(wrote ? "li.wrote" : "li", {}, after, bar,
			make("span", {}, wrote && forced ? "must" : percent(confidence)));
	}

	summary({ row, logProb, forced }, read, waits, limit) {
		const wait = waits < 1
			? "It did not have to wait."
			: `At ${waits} earlier ${waits > 1 ? "moments" : "moment"} the model was less than ${percent(limit)} confident.`;
		const rule = forced ? " This was the last moment allowed." : "";
		const chance = logProb == null ? "" : ` Its probability was ${percent(Math.exp(logProb))}.`;
		return `Written after ${read} of ${row.source.length} words. ${wait}${rule}${chance}`;
	}
}
