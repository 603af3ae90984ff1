// Downloads of what was shown; captions as the server makes them.

const WIDTH = 42, LINES = 2, LEAST = 833, MOST = 7000, GAP = 80, QUIET = 1500, PER_SECOND = 17;

const cells = (text) => [...text].length;

const clock = (ms, mark) => new Date(ms).toISOString().slice(11, 23).replace(".", mark); // below a day

// Cues close at the end of a sentence, at two full lines, after a silence, or when they are old.
export function cues(rows, zero) {
	const closed = [];
	let lines = [], first = 0, last = 0, until = -GAP;
	const close = (next = Infinity) => {
		if (!lines.length) return;
		const start = Math.max(first, until + GAP);
		const reading = (lines.reduce((sum, line) => sum + cells(line), 0) * 1000) / PER_SECOND;
		const end = Math.min(Math.max(start + reading, last), next - GAP);
		until = Math.min(Math.max(end, start + LEAST), start + MOST);
		closed.push({ start, end: until, lines });
		lines = [];
	};
	for (const row of rows) {
		for (const word of row.target) {
			const at = Math.max(0, word.at - zero);
			if (lines.length && (at - last > QUIET || at - first >= MOST)) close(at);
			const fits = lines.length && cells(lines.at(-1)) + 1 + cells(word.text) <= WIDTH;
			if (!fits && lines.length === LINES) close(at);
			if (!lines.length) first = at;
			if (fits) lines[lines.length - 1] += ` ${word.text}`;
			else lines.push(word.text);
			last = at;
		}
		close();
	}
	return closed;
}

const text = (row, side) => row[side].map((word) => word.text).join(" ");
const safe = (line) => line.replaceAll("-->", "→");
const escaped = (line) => safe(line).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

const FORMATS = {
	txt: (rows) => rows.map((row) => `${text(row, "source")}\n${text(row, "target")}\n`).join("\n"),
	srt: (rows, zero) => cues(rows, zero).map(({ start, end, lines }, k) =>
		`${k + 1}\n${clock(start, ",")} --> ${clock(end, ",")}\n${lines.map(safe).join("\n")}\n`).join("\n"),
	vtt: (rows, zero) => ["WEBVTT\n", ...cues(rows, zero).map(({ start, end, lines }) =>
		`${clock(start, ".")} --> ${clock(end, ".")}\n${lines.map(escaped).join("\n")}\n`)].join("\n"),
	jsonl: (rows) => rows.map((row) =>
		JSON.stringify(row.record ?? { source: text(row, "source"), prediction: text(row, "target") }) + "\n").join(""),
};

export function save(kind, rows, zero) {
	const used = rows.filter((row) => row.target.length || row.source.length);
	const link = document.createElement("a");
	link.href = URL.createObjectURL(new Blob([FORMATS[kind](used, zero)]));
	link.download = `hmt.${kind}`;
	link.click();
	setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
