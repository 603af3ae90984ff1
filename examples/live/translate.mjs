// The page's own client outside of a browser: lines from standard input, translated word by word.
//
//	hmt serve
//	echo "Guten Morgen, meine Damen und Herren." | node examples/live/translate.mjs http://127.0.0.1:8765/
//
// Needs Node 22, or 20 with --experimental-websocket; a page imports the same file from /static/client.js.

import { createInterface } from "node:readline";
import { Translator } from "../../src/hmt/server/page/client.js";

const base = process.argv[2] ?? "http://127.0.0.1:8765/";
const live = new Translator({ base, token: process.env.HMT_TOKEN });
live.on("delta", (text) => process.stdout.write(text))
	.on("done", () => process.stdout.write("\n"))
	.on("problem", (message) => console.error(message))
	.connect();

for await (const line of createInterface({ input: process.stdin })) {
	live.append(line);
	live.commit("line");
}
while (live.unanswered.length) await new Promise((resolve) => setTimeout(resolve, 50));
live.close(); // the last words still come
