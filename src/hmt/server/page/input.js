// Where words come from: typing, pasting, a sample at speaking pace, speech.

import { words } from "./client.js";

const SPEAKING = 2.5; // words per second
const MANY = 20; // words at a time for those who do not wait

export const SAMPLES = {
	de: `Ich habe gestern leider keine Zeit gehabt, dich noch anzurufen.
		Ich möchte Ihnen für alles, was Sie für unser Land getan haben, von Herzen danken.
		Das Buch hat 300 Seiten, und ich habe erst 50 gelesen.`,
};

// Words passed on one after another, or as fast as `isFree` allows.
export class Pace {
	constructor(give, isFree, changed) {
		Object.assign(this, { give, isFree, changed, queue: [], hurries: false, speed: 1, playing: false });
	}

	add(list) {
		this.queue.push(...list);
		this.hurries = false;
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
		this.hurries = true;
		this.play();
	}

	stop() {
		this.queue = [];
		this.pause();
	}

	next() {
		if (!this.queue.length) return this.pause();
		const list = this.queue.splice(0, this.hurries ? this.isFree() && MANY : 1);
		if (list.length) this.give(list);
		this.changed(this);
		// Speakers take a breath where a sentence ends.
		const breath = /[.!?…]$/u.test(list.at(-1)) ? 2 : 1;
		this.timer = setTimeout(() => this.next(), this.hurries ? 100 : (1000 * breath) / (SPEAKING * this.speed));
	}
}

// A space makes a word final; what is left in the field is the unfinished one.
export function typing(field, { give, paste, end }) {
	const take = () => {
		const parts = field.value.split(/\s+/u);
		if (parts.length < 2) return;
		field.value = parts.pop();
		give(parts.filter(Boolean));
	};
	field.addEventListener("input", ({ isComposing }) => isComposing || take());
	field.addEventListener("compositionend", take);
	field.addEventListener("paste", (event) => {
		const list = words(field.value + event.clipboardData.getData("text"));
		if (list.length < 2) return;
		event.preventDefault();
		field.value = "";
		paste(list);
	});
	field.form.addEventListener("submit", (event) => {
		event.preventDefault();
		field.value += " ";
		take();
		end();
	});
}

export const Recognition = globalThis.SpeechRecognition ?? globalThis.webkitSpeechRecognition;

// Whether the browser sends no sound anywhere.
export async function staysLocal(lang) {
	try {
		return (await Recognition.available({ langs: [lang], processLocally: true })) === "available";
	} catch {
		return false;
	}
}

const FAILURES = {
	"not-allowed": "The browser does not allow the microphone here.",
	"audio-capture": "There is no microphone.",
	network: "Speech recognition cannot be reached.",
};

export class Microphone {
	constructor(events) {
		Object.assign(this, events, { on: false, utterance: 0 });
	}

	start(lang, local) {
		const recognition = (this.recognition = new Recognition());
		Object.assign(recognition, { lang, continuous: true, interimResults: true });
		if (local) recognition.processLocally = true;
		recognition.onresult = (event) => this.result(event);
		recognition.onerror = ({ error }) => this.failed(error);
		recognition.onend = () => (this.on ? recognition.start() : this.hears(false)); // it ends by itself after a while
		this.on = true;
		recognition.start();
		this.hears(true);
		this.changed(true);
	}

	stop() {
		this.on = false;
		this.recognition?.stop();
		this.changed(false);
	}

	// A final result may be followed by guesses of the next utterance.
	result({ results, resultIndex }) {
		let guess = "";
		for (const { isFinal, 0: { transcript } } of [...results].slice(resultIndex)) {
			if (isFinal) this.guess(transcript.trim(), this.utterance++, true);
			else guess += transcript;
		}
		if (guess) this.guess(guess.trim(), this.utterance, false);
	}

	failed(error) {
		if (error === "no-speech" || error === "aborted") return;
		this.problem(FAILURES[error] ?? `Speech recognition stopped: ${error}.`);
		this.stop();
	}
}
