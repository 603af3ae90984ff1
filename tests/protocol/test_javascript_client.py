"""The JavaScript client on networks that a test cannot make: a WebSocket of its own, in Node."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

CLIENT = Path(__file__).resolve().parents[2] / "src" / "hmt" / "server" / "page" / "client.js"
pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="needs node")

# Time passes only where a test says so; sockets keep what they are sent.
STAGE = """
const timers = new Map();
let last = 0;
globalThis.setTimeout = (call, wait) => (timers.set(++last, { call, wait }), last);
globalThis.clearTimeout = (id) => timers.delete(id);
const pass = () => {
	const [[id, { call, wait }]] = [...timers].sort(([, one], [, other]) => one.wait - other.wait);
	timers.delete(id);
	call();
	return wait;
};
const sockets = [];
globalThis.WebSocket = class {
	static OPEN = 1;
	readyState = 1;
	sent = [];
	constructor(url) { this.url = String(url); sockets.push(this); }
	send(text) { this.sent.push(JSON.parse(text)); }
	close() { this.readyState = 3; }
	says(message) { this.onmessage({ data: JSON.stringify(message) }); }
	begins(type = "session.created", seq = null) {
		this.onopen();
		const session = { id: "sess_a1_1", hmt: { resume_token: "rt_1" } };
		this.says({ type, session, hmt: { seq } });
	}
};
const { Translator } = await import("CLIENT");
const live = new Translator({ base: "http://127.0.0.1/" });
const states = [];
live.on("state", (state) => states.push(state));
live.connect();
"""


def run(script: str) -> Any:
    """What a script leaves in `result`."""
    stage = STAGE.replace("CLIENT", CLIENT.as_uri())
    code = f"{stage}\nlet result;\n{script}\nprocess.stdout.write(JSON.stringify(result));"
    command = ["node", "--input-type=module", "--no-warnings", "-e", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_reader_that_was_too_slow_resumes() -> None:
    """Planted bug: `stalled` is taken for `idle`, and the words of the open sentence are gone."""
    script = """
    sockets[0].begins();
    live.append("Ich habe");
    sockets[0].says({ type: "session.input_text.accepted", hmt: { seq: 1 } });
    sockets[0].onclose({ code: 4408, reason: "REASON" });
    if (timers.size) { pass(); sockets[1].onopen(); }
    result = sockets.slice(1).map((socket) => socket.sent[0]?.hmt.open_sentence);
    """
    assert run(script.replace("REASON", "stalled")) == [["Ich", "habe"]]
    assert run(script.replace("REASON", "idle")) == []


def test_a_server_that_lets_in_and_says_nothing_is_left() -> None:
    """Planted bug: only who has spoken once is expected to go on."""
    script = """
    sockets[0].onopen();
    const waits = [pass(), pass()];
    result = [sockets.length, sockets[0].readyState, waits[0] > waits[1]];
    """
    assert run(script) == [2, 3, True]


def test_a_speaker_comes_back_to_a_room_that_seems_taken() -> None:
    script = """
    sockets[0].begins();
    sockets[0].onclose({ code: 1006, reason: "" });
    pass();
    sockets[1].onopen();
    sockets[1].says({ type: "error", error: { code: "room_taken", message: "", ...MORE } });
    sockets[1].onclose({ code: 4403, reason: "room_taken" });
    result = [states.at(-1), [...timers.values()].map((timer) => timer.wait)];
    """
    assert run(script.replace("MORE", "{ retry_after: 5 }")) == ["waiting", [5000]]
    assert run(script.replace("MORE", "{}")) == ["closed", []]


def test_a_farewell_that_was_lost_is_said_again() -> None:
    """Planted bug: the session stays open on the server until it is idle."""
    script = """
    sockets[0].begins();
    live.append("Ich");
    live.close();
    sockets[0].onclose({ code: 1006, reason: "" });
    pass();
    sockets[1].begins("session.resumed");
    result = sockets[1].sent.map((message) => message.type);
    """
    sent = run(script)
    assert sent[0] == "session.resume"
    assert sent[-2:] == ["session.input_text.append", "session.close"]
