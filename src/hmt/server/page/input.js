// Where words come from: typing, pasting, a sample at speaking pace, the browser's speech recognition.

import { words } from "./client.js";

const SPEAKING = 2.5; // words per second
const FAST = 15; // below the 20 words per second that the server takes

export const SAMPLES = {
  de: [
    ["All four", ""],
    ["Everyday", "Ich habe gestern leider keine Zeit gehabt, dich noch anzurufen."],
    ["A question", "Können Sie mir bitte sagen, wann der nächste Zug nach Leipzig fährt?"],
    ["A late verb", "Wir sollten den Vorschlag, den die Kommission im vergangenen Jahr gemacht hat, nicht ohne eine gründliche Aussprache in diesem Haus ablehnen."],
    ["Numbers", "Im Jahr 2024 haben mehr als 3500 Menschen an 12 Kursen teilgenommen."],
  ],
  en: [
    ["All three", ""],
    ["Everyday", "I would have called you yesterday, but I could not find your number anywhere."],
    ["A question", "Could you tell me which platform the next train to Leipzig leaves from?"],
    ["A long one", "The proposal that the committee made last year should not be rejected without a thorough debate in this house."],
  ],
};

export const samplesFor = (code) => {
  const list = SAMPLES[code] ?? [];
  return list.map(([name, text]) => [name, text || list.map((sample) => sample[1]).join(" ").trim()]);
};

// Words that are handed on one after another.
export class Pace {
  constructor(give, changed) {
    Object.assign(this, { give, changed, queue: [], rate: SPEAKING, speed: 1, playing: false });
  }

  add(list, rate = SPEAKING) {
    this.queue.push(...list);
    this.rate = rate;
    this.play();
  }

  play() {
    this.playing = true;
    clearTimeout(this.timer);
    this.next();
  }

  pause() {
    this.playing = false;
    clearTimeout(this.timer);
    this.changed(this);
  }

  hurry() {
    this.rate = FAST;
    this.play();
  }

  stop() {
    this.queue = [];
    this.pause();
  }

  next() {
    const word = this.queue.shift();
    if (word === undefined) return this.pause();
    this.changed(this);
    this.give(word);
    // Speakers take a breath where a sentence ends.
    const breath = this.rate === SPEAKING && /[.!?…]$/u.test(word) ? 2 : 1;
    this.timer = setTimeout(() => this.next(), (1000 * breath) / (this.rate * this.speed));
  }
}

// A space makes a word final; what is left in the field is the unfinished one.
export function typing(field, { give, paste, end }) {
  const take = () => {
    const parts = field.value.split(/\s+/u);
    const rest = parts.pop();
    const whole = parts.filter(Boolean);
    if (field.value !== rest) field.value = rest;
    if (whole.length) give(whole);
  };
  field.addEventListener("input", (event) => event.isComposing || take());
  field.addEventListener("compositionend", take);
  field.addEventListener("paste", (event) => {
    const text = event.clipboardData.getData("text");
    if (!/\s/u.test(text.trim())) return;
    event.preventDefault();
    paste(words(field.value + text));
    field.value = "";
  });
  field.form.addEventListener("submit", (event) => {
    event.preventDefault();
    const last = words(field.value);
    field.value = "";
    end(last);
  });
}

export const Recognition = globalThis.SpeechRecognition ?? globalThis.webkitSpeechRecognition;

// Whether the browser can recognise this language without sending audio anywhere.
export async function staysLocal(lang) {
  try {
    return (await Recognition.available({ langs: [lang], processLocally: true })) === "available";
  } catch {
    return false;
  }
}

export class Microphone {
  constructor({ guess, changed, problem }) {
    Object.assign(this, { guess, changed, problem, on: false, utterance: 0 });
  }

  start(lang, local) {
    const recognition = (this.recognition = new Recognition());
    Object.assign(recognition, { lang, continuous: true, interimResults: true });
    if (local) recognition.processLocally = true;
    recognition.onresult = (event) => this.result(event);
    recognition.onerror = ({ error }) => this.failed(error);
    recognition.onend = () => this.on && recognition.start(); // it ends by itself after a while
    this.on = true;
    recognition.start();
    this.changed(true);
  }

  stop() {
    this.on = false;
    this.recognition?.stop();
    this.changed(false);
  }

  // A final result is followed by interim ones of the next utterance.
  result({ results, resultIndex }) {
    let interim = "";
    for (const result of [...results].slice(resultIndex)) {
      const text = result[0].transcript;
      if (result.isFinal) this.guess(text.trim(), this.utterance++, true);
      else interim += text;
    }
    if (interim) this.guess(interim.trim(), this.utterance, false);
  }

  failed(error) {
    if (error === "no-speech" || error === "aborted") return;
    const reasons = {
      "not-allowed": "The browser does not allow the microphone here.",
      "service-not-allowed": "The browser does not allow speech recognition here.",
      "audio-capture": "There is no microphone.",
      "language-not-supported": "The browser does not recognise this language.",
      network: "The browser's speech recognition cannot be reached.",
    };
    this.problem(reasons[error] ?? `Speech recognition stopped: ${error}.`);
    this.stop();
  }
}
