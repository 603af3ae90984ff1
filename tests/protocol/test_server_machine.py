"""Any order of valid and broken messages: text only grows, and no word is lost but by `clear`."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the extra `serve` is not installed")
pytest.importorskip("msgspec", reason="the extra `serve` is not installed")

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test
from live_server import Running, Talk, eventually, serving, small_model
from websockets.asyncio.client import connect

SPOKEN = st.sampled_from(["Nolu", "ka,", "besi", "tarum!", "pelo.", "lim", "12", "(ka", "lim)."])
SAID = st.lists(SPOKEN, min_size=1, max_size=4)
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)
KNOWN = ("append", "hypothesis", "commit", "clear")
BROKEN = st.one_of(
    st.binary(max_size=8),
    st.text(max_size=20).filter(lambda text: not text.strip().startswith("{")),
    JUNK.map(json.dumps),
    st.builds(
        lambda kind, junk: json.dumps({"type": f"session.input_text.{kind}", "hmt": [junk]}),
        st.sampled_from(KNOWN),
        JUNK,
    ),
    JUNK.map(lambda junk: json.dumps({"type": "session.update", "session": [junk]})),
    st.sampled_from(
        [
            '{"type":"session.nothing"}',
            '{"type":"session.input_text.append","text":"\\ud800"}',
            '{"type":"session.input_text.append","words":["a"],"hmt":{"at_ms":[1e999]}}',
            '{"type":"session.update","session":{"hmt":{"knobs":{"lower":NaN}}}}',
            '{"type":"session.input_text.commit","hmt":{"seq":-1}}',
        ]
    ),
)


class Speaking(RuleBasedStateMachine):
    """One client, which does what it likes."""

    server: Running

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.talk = self.runner.run(self._connect())
        self.words: list[str] = []
        self.cleared = 0  # words before the last `clear`
        self.partial = ""
        self.broken = 0  # in a row
        self.seq = self.utterance = 0

    async def _connect(self) -> Talk:
        talk = Talk(await connect(self.server.url))
        assert (await talk.next())["type"] == "session.created"
        return talk

    def _send(self, kind: str, facts: dict[str, Any] | None = None, **fields: Any) -> None:
        self.broken = 0
        self.seq += 1
        numbered = {**(facts or {}), "seq": self.seq}
        self.runner.run(self.talk.send(f"session.input_text.{kind}", hmt=numbered, **fields))

    @rule(words=SAID, cut=st.integers(0, 8))
    def say_text(self, words: list[str], cut: int) -> None:
        text = " ".join(words) + " "
        for part in (text[:cut], text[cut:]):
            self._send("append", text=part)
        self.words += (self.partial + text).split()
        self.partial = ""

    @rule(words=SAID)
    def say_words(self, words: list[str]) -> None:
        self._send("append", words=words)
        self.words += [*([self.partial] if self.partial else []), *words]
        self.partial = ""

    @rule(word=SPOKEN)
    def begin_a_word(self, word: str) -> None:
        self._send("append", text=word)
        self.partial += word

    @precondition(lambda self: not self.partial)
    @rule(words=SAID, tail=SPOKEN)
    def guess(self, words: list[str], tail: str) -> None:
        self.utterance += 1
        facts = {"utterance": self.utterance, "committed": len(words)}
        self._send("hypothesis", {**facts, "text": " ".join([*words, tail])})
        self._send("hypothesis", {**facts, "text": " ".join(words)})
        self.words += words

    @rule()
    def commit(self) -> None:
        self._send("commit")
        self.words += [self.partial] if self.partial else []
        self.partial = ""

    @rule()
    def clear(self) -> None:
        self._send("clear")
        self.cleared, self.partial = len(self.words), ""

    @rule(change=st.sampled_from([{"threshold": 0.9}, {"lower": 2}, {"threshold": 0.2}]))
    def turn(self, change: dict[str, Any]) -> None:
        self.broken = 0
        update = self.talk.send("session.update", session={"hmt": {"knobs": change}})
        self.runner.run(update)

    @precondition(lambda self: self.broken < 2)
    @rule(message=BROKEN)
    def break_something(self, message: str | bytes) -> None:
        self.broken += 1
        self.runner.run(self.talk.websocket.send(message))
        self.runner.run(self.talk.until("error"))

    @precondition(lambda self: self.words)
    @rule()
    def repeat(self) -> None:
        """As after a lost connection: a message that was taken is not taken again."""
        self.seq -= 1
        self._send("append", words=["again"])

    def teardown(self) -> None:
        try:
            self.runner.run(self._finish())
        finally:
            self.runner.run(self.talk.websocket.close())
            self.runner.close()

    async def _finish(self) -> None:
        words = [*self.words, *([self.partial] if self.partial else [])]
        await self.talk.finish()
        kinds = ("session.output_transcript.delta", "session.output_transcript.done")
        numbers = [event["hmt"]["n"] for event in self.talk.events if event["type"] in kinds]
        assert numbers == list(range(1, len(numbers) + 1))
        offset = 0
        for event in self.talk.of(kinds[0]):
            assert event["hmt"]["offset"] == offset
            offset += len(event["delta"])
        read = " ".join(event["hmt"]["source"] for event in self.talk.of(kinds[1])).split()
        kept = words[self.cleared :]
        assert read[len(read) - len(kept) :] == kept
        rest = iter(words[: self.cleared])
        assert all(word in rest for word in read[: len(read) - len(kept)])
        assert self.talk.events[-1]["hmt"]["words_in"] == len(words)


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    limits = {"words_per_second": 10_000, "burst_words": 100_000, "per_address": 100}
    with serving(small_model(), **limits) as running:
        yield running


def test_any_order_of_messages(server: Running) -> None:
    """Planted bugs: a repeated message is taken twice; `clear` keeps the word that was begun."""
    Speaking.server = server
    run_state_machine_as_test(
        Speaking,
        settings=settings(
            max_examples=15,
            stateful_step_count=12,
            deadline=None,
            derandomize=True,
            phases=(Phase.generate,),  # to shrink what failed would take many minutes
            suppress_health_check=list(HealthCheck),
        ),
    )
    conductor = server.service.served["xx-yy"].conductor
    assert eventually(
        lambda: not server.service.sessions and conductor.usage.free == conductor.usage.slots
    ), "a session or a slot was not given back"
