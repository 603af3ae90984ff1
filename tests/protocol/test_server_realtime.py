"""The live protocol: the same text as the pipe, whatever clients do."""

import asyncio
import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the extra `serve` is not installed")
pytest.importorskip("msgspec", reason="the extra `serve` is not installed")

from live_server import WORDS, Running, Talk, piped, serving, small_model, talking
from websockets.asyncio.client import connect

from hmt.models.model import Model


@pytest.fixture(scope="module")
def model() -> Model:
    return small_model()


@pytest.fixture(scope="module")
def server(model: Model) -> Iterator[Running]:
    with serving(model, words_per_second=2000, burst_words=5000) as running:
        yield running


def draw_words(seed: int, count: int) -> list[str]:
    return random.Random(seed).choices(WORDS, k=count)


async def speak(server: Running, seed: int, words: list[str]) -> Talk:
    """Say words in random groups, now as text, now as a list."""
    draw = random.Random(seed)
    async with talking(server) as talk:
        at = 0
        while at < len(words):
            group = words[at : at + draw.randint(1, 7)]
            at += len(group)
            if draw.random() < 0.3:
                await talk.send("session.input_text.append", words=group)
            else:
                text = " ".join(group)
                cut = draw.randint(0, len(text))
                await talk.append(text[:cut])
                await talk.append(text[cut:] + " ")
            if draw.random() < 0.5:
                await asyncio.sleep(draw.random() / 100)
        await talk.finish()
        assert await talk.code() == 1000
    return talk


def test_the_same_text_as_the_pipe_in_any_grouping_and_mixture(server: Running) -> None:
    """Planted bugs: a word that is cut by a message counts twice; streams of a round mixed up."""

    async def all_at_once() -> list[Talk]:
        speakers = (speak(server, n, draw_words(n, 15)) for n in range(6))
        return list(await asyncio.gather(*speakers))

    talks = asyncio.run(all_at_once())
    expected = [piped(server.model, draw_words(n, 15)) for n in range(6)]
    assert [talk.text for talk in talks] == expected
    assert len(set(expected)) == 6
    for talk in talks:
        check_numbers(talk)
        sources = [done["hmt"]["source"] for done in talk.of("session.output_transcript.done")]
        assert sorted(" ".join(sources).split()) == sorted(draw_words(talks.index(talk), 15))


def check_numbers(talk: Talk) -> None:
    """`n` has no gaps, offsets count characters, every event has an id."""
    kinds = ("session.output_transcript.delta", "session.output_transcript.done")
    numbers = [event["hmt"]["n"] for event in talk.events if event["type"] in kinds]
    assert numbers == list(range(1, len(numbers) + 1))
    offset = 0
    for event in talk.of(kinds[0]):
        assert event["hmt"]["offset"] == offset
        offset += len(event["delta"])
    assert [event["event_id"] for event in talk.events] == [
        f"evt_{n}" for n in range(1, len(talk.events) + 1)
    ]


def test_a_commit_ends_the_sentence_and_is_answered(server: Running) -> None:
    async def run() -> Talk:
        async with talking(server) as talk:
            await talk.append("Nolu ka besi tarum ", seq=1)
            await talk.send("session.input_text.commit", hmt={"seq": 2, "reason": "pause"})
            done = await talk.until("session.output_transcript.done")
            assert done["hmt"]["seq"] == 2
            assert done["hmt"]["reason"] == "pause"
            await talk.append("besi nolu ", seq=3)
            await talk.finish()
            return talk

    talk = asyncio.run(run())
    assert talk.text == piped(server.model, ["Nolu", "ka", "besi", "tarum", "besi", "nolu"], {3})


def test_an_empty_commit_writes_nothing(server: Running) -> None:
    async def run() -> str:
        async with talking(server) as talk:
            await talk.send("session.input_text.commit", hmt={"seq": 1})
            return str(await talk.finish())

    assert asyncio.run(run()) == ""


def test_settings_outside_the_trained_range_are_refused(server: Running) -> None:
    """Planted bug: the doubts of the system are not asked."""

    async def run() -> list[dict[str, Any]]:
        async with talking(server) as talk:
            for knobs in ({"states": 100}, {"lowr": 1}, {"threshold": 0}, {"lower": "x"}):
                await talk.send("session.update", session={"hmt": {"knobs": knobs}})
                await talk.until("error")
            await talk.send("session.update", session={"audio": {"output": {"language": "fr"}}})
            await talk.until("error")
            await talk.append("Nolu ka. ")
            await talk.finish()
            assert talk.text
            return [event["error"] for event in talk.of("error")]

    errors = asyncio.run(run())
    codes = [error["code"] for error in errors]
    assert codes[:4] == ["knob_limit", "unknown_knob", "knob_limit", "invalid_knob"]
    assert codes[4:] == ["unsupported_language"]
    assert "lower, states, threshold" in errors[1]["message"]


def test_the_dial_moves_as_in_the_library(server: Running) -> None:
    """`lower` waits for the next sentence, `threshold` does not. Planted bug: both at once."""
    words = draw_words(3, 16)

    async def run() -> Talk:
        async with talking(server) as talk:
            await talk.append(" ".join(words[:9]) + " ")
            change = {"knobs": {"threshold": 0.9, "lower": 2}}
            await talk.send("session.update", session={"hmt": change})
            updated = await talk.until("session.updated")
            assert updated["session"]["hmt"]["knobs"]["threshold"] == 0.9
            await talk.append(" ".join(words[9:]) + " ")
            await talk.finish()
            return talk

    session = server.model.session()
    text = session.push(" ".join(words[:9]))
    session.set(threshold=0.9, lower=2)
    text += session.push(" ".join(words[9:])) + session.pause()
    assert asyncio.run(run()).text == text


BROKEN = [
    "nonsense",
    "[]",
    "{}",
    '{"type":5}',
    '{"type":"session.input_text.append","text":7}',
    '{"type":"session.input_text.append"}',
    '{"type":"session.input_text.append","text":"a","words":["b"]}',
    '{"type":"session.input_text.append","text":"' + "x" * 300 + ' "}',
    '{"type":"session.input_text.append","words":["' + '","'.join(["a"] * 201) + '"]}',
    '{"type":"session.input_text.append","text":"\\ud800"}',
    '{"type":"session.input_text.append","text":"a","hmt":{"seq":-1}}',
    '{"type":"session.input_text.append","text":"a","hmt":{"at_ms":[1e999]}}',
    '{"type":"session.update","session":{"hmt":{"knobs":{"lower":NaN}}}}',
    '{"type":"session.update","session":{"hmt":{"knobs":{"lower":1e308}}}}',
    '{"type":"session.update","session":{"hmt":{"granularity":"letter"}}}',
    '{"type":"session.update","session":{"hmt":{"commit":"hold:x"}}}',
    '{"type":"session.input_text.hypothesis"}',
    '{"type":"session.input_audio_buffer.append","audio":"AAAA"}',
    '{"type":"session.nothing"}',
    '{"type":"session.resume","hmt":{"token":"rt_x"}}',
    b"\x00\x01",
    b'{"type":"session.input_text.append","text":"Nolu "}',
    '{"type":"session.input_text.append","text":"' + "x" * 300 + '"}',
    '{"type":"session.input_text.append","words":["a"],"hmt":{"at_ms":[-1]}}',
]


@pytest.mark.parametrize("seed", range(3))
def test_broken_messages_change_nothing(server: Running, seed: int) -> None:
    """Valid and broken messages in turn, each broken one once; the text is that of the valid ones.

    Planted bugs: numbers below zero, words of any length and number, JSON in a binary frame.
    """
    broken = BROKEN[seed::3]
    random.Random(seed).shuffle(broken)
    words = draw_words(seed, len(broken))

    async def run() -> Talk:
        async with talking(server) as talk:
            for word, message in zip(words, broken, strict=True):
                await talk.append(word + " ")
                await talk.websocket.send(message)
            await talk.finish()
            assert len(talk.of("error")) == len(broken)
            return talk

    talk = asyncio.run(run())
    assert talk.text == piped(server.model, words)
    for event in talk.of("error"):
        assert event["error"]["message"].endswith((".", "…"))
        assert "x" * 61 not in event["error"]["message"]
        assert "Traceback" not in json.dumps(event)


def test_three_broken_messages_in_a_row_close(server: Running) -> None:
    async def run() -> int:
        async with talking(server) as talk:
            for _ in range(3):
                await talk.websocket.send("nonsense")
            return int(await talk.code())

    assert asyncio.run(run()) == 4400


def test_a_message_that_is_too_big_closes(server: Running) -> None:
    async def run() -> int:
        async with talking(server) as talk:
            await talk.websocket.send('{"type":"x","text":"' + "a" * 1_000_000 + '"}')
            return int(await talk.code())

    assert asyncio.run(run()) == 1009


def test_unpunctuated_text_loses_no_word(server: Running) -> None:
    """What the model did not translate opens the next sentence. Planted bug: it is dropped."""
    words = [word.strip('.,!?:"()') for word in draw_words(11, 40)]

    async def run() -> Talk:
        async with talking(server) as talk:
            await talk.append(" ".join(words) + " ")
            await talk.finish()
            return talk

    talk = asyncio.run(run())
    sources = [done["hmt"]["source"] for done in talk.of("session.output_transcript.done")]
    assert " ".join(sources).split() == words


def test_clear_drops_what_is_open_and_keeps_what_was_written(server: Running) -> None:
    async def run() -> Talk:
        async with talking(server) as talk:
            await talk.append("Nolu ka. Besi tarum pelo ")
            await talk.until("session.output_transcript.done")
            await talk.send("session.input_text.clear")
            await talk.append("Ka nolu. ")
            await talk.finish()
            return talk

    talk = asyncio.run(run())
    sources = [done["hmt"]["source"] for done in talk.of("session.output_transcript.done")]
    assert sources == ["Nolu ka.", "Ka nolu."]


def test_guesses_are_translated_once_they_are_final(server: Running) -> None:
    """Planted bug: the tentative tail reaches the model."""

    async def run() -> Talk:
        async with talking(server) as talk:
            await talk.send("session.update", session={"hmt": {"echo": True}})
            for text in ("Nolu", "Nolu ka", "Nolu ka besi", "Nolu ka pelo tarum"):
                await talk.send("session.input_text.hypothesis", hmt={"text": text, "utterance": 1})
            await talk.send("session.input_text.commit", hmt={"seq": 9})
            done = await talk.until("session.output_transcript.done")
            assert done["hmt"]["source"] == "Nolu ka pelo tarum"
            await talk.finish()
            return talk

    talk = asyncio.run(run())
    heard = "".join(event["delta"] for event in talk.of("session.input_transcript.delta"))
    assert heard == "Nolu ka pelo tarum "
    assert talk.text == piped(server.model, heard.split())


def test_whole_words_only_where_they_are_asked_for(server: Running) -> None:
    """Planted bug: a word is sent in pieces. With threshold 1 the model waits where it may."""
    words = ["nolu", "ka", "besi", "tarum", "pelo", *draw_words(7, 12)]

    async def run() -> Talk:
        async with talking(server) as talk:
            change = {"granularity": "word", "detail": True, "knobs": {"threshold": 1.0}}
            await talk.send("session.update", session={"hmt": change})
            await talk.append(" ".join(words[:5]) + " ")
            await talk.until("session.waiting")
            await talk.append(" ".join(words[5:]) + " ")
            await talk.finish()
            return talk

    talk = asyncio.run(run())
    assert talk.text == piped(server.model, words, threshold=1.0)
    for event in talk.of("session.output_transcript.delta")[1:]:
        assert event["delta"].startswith(" ")
    assert all(done["hmt"]["record"] for done in talk.of("session.output_transcript.done"))


def test_wrong_model_origin_and_room(server: Running) -> None:
    async def code(query: str, **options: Any) -> int:
        async with connect(f"{server.url}?{query}", **options) as websocket:
            return await Talk(websocket).code()

    assert asyncio.run(code("model=fr-en")) == 4404
    assert asyncio.run(code("", origin="http://evil.example")) == 4403
    assert asyncio.run(code("room=../etc")) == 4403


def test_busy_is_told_and_others_go_on(model: Model) -> None:
    async def run(server: Running) -> None:
        async with talking(server) as first, talking(server):
            async with connect(server.url) as third:
                talk = Talk(third)
                assert await talk.code() == 1013
                error = talk.of("error")[0]["error"]
                assert error["code"] == "busy"
                assert error["retry_after"] > 0
            await first.append("Nolu ka. ")
            assert await first.finish()

    with serving(model, places=2) as server:
        asyncio.run(run(server))
        with serving(model, per_address=1) as other:

            async def crowd() -> int:
                async with talking(other), connect(other.url) as second:
                    return await Talk(second).code()

            assert asyncio.run(crowd()) == 4429


def test_a_pause_ends_a_sentence_and_silence_the_session(model: Model) -> None:
    async def run(server: Running) -> int:
        async with talking(server) as talk:
            await talk.send("session.update", session={"hmt": {"pause_ms": 200}})
            await talk.append("Nolu ka besi ")
            done = await talk.until("session.output_transcript.done")
            assert done["hmt"]["reason"] == "pause"
            await talk.until("session.heartbeat")
            return int(await talk.code())

    with serving(model, idle_seconds=8, heartbeat_seconds=0.3) as server:
        assert asyncio.run(run(server)) == 4408
        assert not server.service.sessions
        usage = server.service.served["xx-yy"].conductor.usage
        assert usage.free == usage.slots


def test_sentences_end_only_where_the_client_says_so(server: Running) -> None:
    """`manual` is a limit of one session: another one cuts as before. Planted bug: both cut."""
    words = ["Nolu", "ka.", "Besi", "tarum!", "Pelo", "nolu"]

    async def run(settings: dict[str, Any]) -> list[str]:
        async with talking(server) as talk:
            await talk.append("Lim. ")
            await talk.until("session.output_transcript.done")
            await talk.send("session.update", session={"hmt": settings})
            await talk.append(" ".join(words) + " ")
            await talk.finish()
            done = talk.of("session.output_transcript.done")
            return [event["hmt"]["source"] for event in done[1:]]

    async def both() -> tuple[list[str], list[str]]:
        first, second = await asyncio.gather(run({"sentences": "manual"}), run({}))
        return first, second

    uncut, cut = asyncio.run(both())
    assert " ".join(uncut).split() == " ".join(cut).split() == words
    assert uncut[0].startswith("Nolu ka. Besi")
    assert cut[0] == "Nolu ka."


def test_a_sentence_has_at_most_so_many_tokens(model: Model) -> None:
    """It is cut, told, and no word of it is lost. Planted bug: the limit is not passed on."""
    words = ["nolu", "ka", "besi", "tarum", "pelo", "lim"] * 4

    async def run(server: Running) -> Talk:
        async with talking(server) as talk:
            await talk.send("session.update", session={"hmt": {"sentences": "manual"}})
            await talk.append(" ".join(words) + " ")
            await talk.finish()
            return talk

    with serving(model, sentence_tokens=12) as server:
        talk = asyncio.run(run(server))
    done = [event["hmt"] for event in talk.of("session.output_transcript.done")]
    assert " ".join(facts["source"] for facts in done).split() == words
    assert all(len(model.source_tokenizer.encode(facts["source"])) <= 12 for facts in done)
    codes = {event["hmt"]["code"] for event in talk.of("session.notice")}
    assert "cut_long" in codes


def test_a_client_that_is_not_read_is_not_silent(model: Model) -> None:
    """Too many words wait in the network; that is no pause. Planted bug: the sentence is cut."""
    words = ["nolu", "ka", "besi"] * 3

    async def run(server: Running) -> Talk:
        async with talking(server) as talk:
            change = {"pause_ms": 2000, "knobs": {"threshold": 1.0}}
            await talk.send("session.update", session={"hmt": change})
            for at in range(0, 9, 3):
                await talk.append(" ".join(words[at : at + 3]) + " ")
            await talk.finish()
            return talk

    with serving(model, words_per_second=1, burst_words=3) as server:
        talk = asyncio.run(run(server))
    done = [event["hmt"] for event in talk.of("session.output_transcript.done")]
    assert "pause" not in {facts["reason"] for facts in done}
    assert " ".join(facts["source"] for facts in done).split() == words
