// Why did it wait? What had been heard when a word was written, and how confident the model was.

import { language, make } from "./view.js";

const percent = (share) => `${Math.round(100 * share)} %`;

export class Why {
  constructor(box, transcript, threshold) {
    Object.assign(this, { box, transcript, threshold });
  }

  show(word) {
    this.word?.node.classList.remove("chosen");
    this.word?.under?.classList.remove("chosen");
    this.word = word;
    word.node.classList.add("chosen");
    word.under?.classList.add("chosen");
    const { row } = word;
    const at = row.target.indexOf(word);
    const read = Math.min(word.read ?? row.source.length, row.source.length);
    const limit = word.waits.at(-1)?.threshold ?? this.threshold();
    this.box.replaceChildren(
      make("div", { class: "step" },
        this.step("Previous word", "←", row, at - 1),
        make("p", { class: "picked", ...language(this.transcript.languages[1]) }, word.text),
        this.step("Next word", "→", row, at + 1)),
      this.heard(row, read),
      this.bars(word, row, read, limit),
      make("p", { class: "quiet" }, this.summary(word, row, read, limit)));
  }

  step(label, arrow, row, at) {
    const button = make("button", { type: "button", "aria-label": label }, arrow);
    button.disabled = !row.target[at];
    button.addEventListener("click", () => {
      this.show(row.target[at]);
      [...this.box.querySelectorAll(".step button")].find((one) => one.ariaLabel === label && !one.disabled)?.focus();
    });
    return button;
  }

  heard(row, read) {
    const line = make("p", { class: "heard", ...language(this.transcript.languages[0]) });
    line.append(make("b", {}, row.source.slice(0, read).map((word) => word.text).join(" ")));
    line.append(make("span", { class: "written", role: "img", "aria-label": " – written here – " }));
    line.append(row.source.slice(read).map((word) => word.text).join(" "));
    return line;
  }

  // One bar per moment at which the word could have been written; the last one wrote it.
  bars(word, row, read, limit) {
    const list = make("ol", { class: "bars" });
    const add = (heard, confidence, wrote) => {
      const after = row.source[Math.min(heard, row.source.length) - 1]?.text ?? "nothing";
      const bar = make("span", { class: "bar", "aria-hidden": "true" }, make("i"), make("em"));
      bar.style.setProperty("--share", confidence);
      bar.style.setProperty("--limit", limit);
      list.append(make("li", wrote ? { class: "wrote" } : {},
        make("span", { class: "after" }, `… ${after}`), bar,
        make("span", { class: "share" }, percent(confidence))));
    };
    for (const wait of word.waits) if (wait.confidence != null) add(wait.heard, wait.confidence, false);
    if (word.confidence != null) add(read, word.confidence, true);
    return list;
  }

  summary(word, row, read, limit) {
    const begun = `Written after ${read} of ${row.source.length} words`;
    const lag = word.lag == null ? "" : `, ${(word.lag / 1000).toFixed(2)} s after the last of them`;
    const wait = word.waits.length
      ? ` It waited ${word.waits.length === 1 ? "once" : `${word.waits.length} times`}: the model was less confident than ${percent(limit)}.`
      : " It did not wait: at the first moment it could be written, it was.";
    const rule = word.forced ? " This was its last allowed moment, so it was written whatever the confidence." : "";
    const chance = word.logProb == null ? "" : ` The model gave this word ${percent(Math.exp(word.logProb))}.`;
    return `${begun}${lag}.${wait}${rule}${chance}`;
  }
}
