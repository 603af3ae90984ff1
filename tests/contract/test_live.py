"""Running text: every word counts, every sentence is told apart, however the words come."""

import logging
import random
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from lively import SYMBOLS, lively, lively_hmt

from hmt.errors import UserError
from hmt.models.model import Model
from hmt.plain import to_plain
from hmt.streaming import live as live_module
from hmt.streaming.borders import CANDIDATES, find_border
from hmt.streaming.events import Ended, Event, Notice, Written
from hmt.streaming.live import Live, SentenceRules
from hmt.streaming.session import Session
from hmt.systems import SYSTEMS
from hmt.systems.batch import Batch
from hmt.text.symbols import EOS
from hmt.text.tokenizer import Tokenizer, train_bpe

TEXT = [
    "Nolu ka, besi tarum!",
    "Ka besi nolu tarum, 12 pelo.",
    '"Tarum pelo?" (ka lim).',
    "lim . !",
]
PUNCTUATED = [*" ".join(TEXT).split(), "—", "z.B.", "unheard", "?"]
BARE = ["nolu", "ka", "besi", "tarum", "pelo", "lim"]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_bpe(TEXT, 60)


@pytest.fixture(autouse=True)
def _short_translations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hmt.streaming.engine.LENGTH_EXTRA", 8)
    monkeypatch.setattr("hmt.streaming.engine.LENGTH_FACTOR", 1)


def model_of(tokenizer: Tokenizer, seed: int, lower: int = 2) -> Model:
    size = {"source_vocabulary": tokenizer.size, "target_vocabulary": tokenizer.size}
    return Model(lively_hmt(seed, lower, 3, **size), (tokenizer, tokenizer))


@pytest.fixture(scope="module")
def models(tokenizer: Tokenizer) -> list[Model]:
    """The last one writes many full stops."""
    plain = [model_of(tokenizer, seed) for seed in (5, 6)]
    return [*plain, leaning(model_of(tokenizer, 7), [".", "!", "?"], 4.0)]


def leaning(model: Model, texts: Sequence[str], by: float) -> Model:
    """The same model with some tokens (None of text: the end) more probable, or less."""
    bias = torch.zeros(model.target_tokenizer.size, dtype=torch.double)
    for id, piece in enumerate(model.target_tokenizer.pieces):
        if ("" if id == EOS else piece.text or None) in texts:
            bias[id] = by
    model.system.transformer.output.register_forward_hook(lambda _, __, out: out + bias)
    return model


# ---- scripts: what a caller does, word by word


@dataclass(frozen=True)
class Script:
    """Words, with "PAUSE" and "FINISH" between them."""

    steps: list[str]

    @property
    def words(self) -> list[str]:
        return [step for step in self.steps if step not in ("PAUSE", "FINISH")]


def script(seed: int, length: int = 25) -> Script:
    """Punctuated text, bare text or both; pauses and finishes here and there; a finish at last."""
    draw = random.Random(seed)
    words = [PUNCTUATED, BARE, PUNCTUATED + BARE][seed % 3]
    steps = []
    for _ in range(length):
        steps.append(draw.choice(words))
        if draw.random() < 0.08:
            steps.append(draw.choice(["PAUSE", "FINISH"]))
    return Script([*steps, "FINISH"])


def play(session: Session, script: Script) -> str:
    acts = {"PAUSE": session.pause, "FINISH": session.finish}
    return "".join(acts[s]() if s in acts else session.push(s) for s in script.steps)


def timeless(events: Sequence[Event]) -> list[Event]:
    return [replace(event, seconds=0.0) for event in events]


def rounded(events: Sequence[Event]) -> list[dict[str, object]]:
    """Without times, and with numbers as exact as another mixture of streams leaves them."""
    return [
        {key: round(v, 9) if isinstance(v, float) else v for key, v in event.plain().items()}
        for event in timeless(events)
    ]


def ends(events: Sequence[Event]) -> list[Ended]:
    return [event for event in events if isinstance(event, Ended)]


def writes(events: Sequence[Event]) -> list[Written]:
    return [event for event in events if isinstance(event, Written)]


def check(session: Session, heard: list[str], text: str) -> None:
    """What must be true of any session that was finished."""
    over = ends(session.events)
    assert [word for end in over for word in end.source.split()] == heard
    assert "".join(event.text for event in writes(session.events)) == text
    assert [end.sentence for end in over] == list(range(len(over)))
    assert [end.source_words for end in over] == [len(end.source.split()) for end in over]
    assert len(session.records) == len(over)
    for n, (end, record) in enumerate(zip(over, session.records, strict=True)):
        own = [event for event in writes(session.events) if event.sentence == n]
        assert "".join(event.text for event in own).lstrip() == end.text == record.prediction
        assert record.index == n and record.source == end.source
        assert record.source_tokens[-1] == "</s>"
        assert len(record.source_word_ends) == end.source_words
        assert len(record.arrivals) == len(record.source_tokens)
        for moments, read in zip(record.moments, record.reads, strict=True):
            assert moments == sorted(set(moments)) and read in moments
            assert read <= len(record.source_tokens)
        record.check()
    numbers = [event.sentence for event in session.events]
    assert numbers == sorted(numbers)
    total = [event.read_words for event in writes(session.events)]
    assert total == sorted(total) and (not total or total[-1] <= len(heard))


@pytest.mark.parametrize("least_end", [live_module.LEAST_END, -float("inf")])
@pytest.mark.parametrize("seed", range(6))
def test_no_word_is_lost(
    models: list[Model], seed: int, least_end: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted bugs: words left by the model not heard again; the caller's end forgotten when the
    model ended first; a mark at the start of a sentence not counted as a word."""
    monkeypatch.setattr(live_module, "LEAST_END", least_end)
    session, said = models[seed % 3].session(), script(seed)
    check(session, said.words, play(session, said))


def test_the_tests_see_every_way_to_end(
    models: list[Model], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or else they would pass on broken code."""
    monkeypatch.setattr(live_module, "LEAST_END", -float("inf"))
    reasons, has_left, full_stops = set(), 0, 0
    for seed in range(9):
        session, said = models[seed % 3].session(), script(seed)
        play(session, said)
        over = ends(session.events)
        reasons |= {end.reason for end in over}
        last = {event.sentence: event for event in writes(session.events)}
        has_left += sum(
            last[e.sentence].source_words > e.source_words for e in over if e.sentence in last
        )
        full_stops += sum(e.reason == "model" and e.text[-1:] in (".", "!", "?") for e in over)
    assert reasons >= {"punctuation", "pause", "finish", "model"}
    assert has_left >= 2 and full_stops >= 2


def grouped(model: Model, said: Script, draw: random.Random) -> list[Event]:
    """The events of a `Live` that hears several words, pauses and ends before it is advanced."""
    live = Live(model.engine(), model.tokenizers, model.knobs())
    reasons = {"PAUSE": "pause", "FINISH": "finish"}
    events: list[Event] = []
    steps = list(said.steps)
    while steps:
        for _ in range(draw.choice([1, 2, 5, 60])):
            if steps:
                step = steps.pop(0)
                live.end(reasons[step]) if step in reasons else live.hear(step)
        while (stream := live.feed()) is not None:
            live.engine.advance([stream])
            events += live.collect()
    return events


@pytest.mark.parametrize("least_end", [live_module.LEAST_END, -float("inf")])
@pytest.mark.parametrize("seed", range(6))
def test_grouping_makes_no_difference(
    models: list[Model], seed: int, least_end: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted bugs: a stream halts only while its source has not ended; punctuation of words that
    were not read counts; words not read decide whether a border is looked for."""
    monkeypatch.setattr(live_module, "LEAST_END", least_end)
    model, said = models[seed % 3], script(seed)
    session = model.session()
    play(session, said)
    for n in range(2):
        events = grouped(model, said, random.Random(n))
        assert rounded(events) == rounded(session.events)


def test_many_lives_on_one_engine(models: list[Model]) -> None:
    """As a server drives them: one advance for all that have something to do."""
    model = models[0]
    engine = model.engine(4)
    lives = [Live(engine, model.tokenizers, model.knobs()) for _ in range(4)]
    scripts = [script(seed, 15 + 5 * seed) for seed in range(4)]
    found: list[list[Event]] = [[] for _ in lives]
    for n in range(max(len(said.steps) for said in scripts)):
        for live, said in zip(lives, scripts, strict=True):
            for step in said.steps[n : n + 1]:
                is_end = step in ("PAUSE", "FINISH")
                live.end(step.lower()) if is_end else live.hear(step)
        while streams := [stream for live in lives if (stream := live.feed()) is not None]:
            engine.advance(streams)
            for events, live in zip(found, lives, strict=True):
                events += live.collect()
    for events, said in zip(found, scripts, strict=True):
        session = model.session()
        play(session, said)
        assert rounded(events) == rounded(session.events)
    assert sorted(engine.free) == [0, 1, 2, 3]


def run_live(live: Live, words: Sequence[str]) -> list[Event]:
    """Words one at a time, and a pause at last."""
    found: list[Event] = []
    for word in [*words, None]:
        live.end("pause") if word is None else live.hear(word)
        while (stream := live.feed()) is not None:
            live.engine.advance([stream])
            found += live.collect()
    return found


def test_only_the_caller_and_the_model_end_what_is_not_cut(models: list[Model]) -> None:
    """Planted bug: punctuation still ends sentences."""
    words = random.Random(3).choices(PUNCTUATED, k=30)
    model = models[0]
    live = Live(model.engine(), model.tokenizers, model.knobs(), SentenceRules(cuts=False))
    over = ends(run_live(live, words))
    assert [word for end in over for word in end.source.split()] == words
    assert {end.reason for end in over} <= {"pause", "model", "length"}
    cut = Live(model.engine(), model.tokenizers, model.knobs())
    assert "punctuation" in {end.reason for end in ends(run_live(cut, words))}


def test_a_sentence_is_no_longer_than_it_may_be(models: list[Model]) -> None:
    """Planted bug: a single word that is longer than a sentence may be."""
    model = models[0]
    live = Live(
        model.engine(), model.tokenizers, model.knobs(), SentenceRules(cuts=False, max_tokens=12)
    )
    words = [*random.Random(4).choices(BARE, k=20), "limka" * 10, "ka"]
    assert len(model.source_tokenizer.encode(words[-2])) > 12
    lengths, heard = [], []
    for word in [*words, None]:
        live.end("pause") if word is None else live.hear(word)
        while (stream := live.feed()) is not None:
            live.engine.advance([stream])
            lengths.append(len(stream.source))
            heard += [w for end in ends(live.collect()) for w in end.source.split()]
    assert heard == words
    assert max(lengths) == 12, "eleven tokens and the end"


@pytest.mark.parametrize("seed", range(3))
def test_words_read_are_counted_as_delays_are(models: list[Model], seed: int) -> None:
    """Against a slow count over the tokens of all words heard.

    Planted bugs: a word read in part not counted; words of earlier sentences not counted.
    """
    model, said = models[seed], script(seed)
    reads: dict[int, list[int]] = {}  # source tokens without the end, per token of each sentence

    def listen(event: Event) -> None:
        stream = session.stream
        most = sum(token != EOS for token in stream.source)
        reads[event.sentence] = [min(read, most) for read in stream.reads]

    session = model.session(listener=listen)
    play(session, said)
    lengths = [len(model.source_tokenizer.encode(word)) for word in said.words]
    before = most = 0
    for end in ends(session.events):
        own = [event for event in writes(session.events) if event.sentence == end.sentence]
        for event, tokens in zip(own, reads[end.sentence], strict=False):
            words = sum(sum(lengths[before : before + n]) < tokens for n in range(tokens))
            most = max(most, before + words)
            assert (event.source_words, event.read_words) == (words, most)
        before += len(end.source.split())
    assert len(writes(session.events)) > 20


# ---- odd models, odd text


@pytest.mark.parametrize(
    ("texts", "by", "lower", "reason"),
    [
        ([""], 30.0, 2, "model"),  # ends at once
        ([""], -30.0, 2, "finish"),  # never ends
        ([""], -30.0, -30, "length"),  # never ends and does not listen
        ([".", "!", "?"], 30.0, 2, "finish"),  # writes full stops all the time
    ],
)
@pytest.mark.parametrize("words", [PUNCTUATED, BARE])
def test_odd_models_lose_nothing_and_come_to_an_end(
    tokenizer: Tokenizer, texts: list[str], by: float, lower: int, reason: str, words: list[str]
) -> None:
    """Planted bug: a border before the first word, which would be translated for ever."""
    model = leaning(model_of(tokenizer, 8, lower), texts, by)
    heard = random.Random(1).choices(words, k=20)
    session = model.session()
    text = "".join(session.push(word) for word in heard) + session.finish()
    session.events[:] = [event for event in session.events if not isinstance(event, Notice)]
    check(session, heard, text)
    over = ends(session.events)
    assert reason in {end.reason for end in over}
    assert all(record.source for record in session.records)
    assert len(over) <= len(heard)


@pytest.mark.parametrize("name", SYSTEMS)
def test_every_system_takes_running_text(name: str) -> None:
    """Borders are found with every system's own scores."""
    words = ["ab", "ba", "c", "bab", "ac", "cab", "bc", "a", "abc", "cba", "bca", "acb", "aab"]
    tokenizer = train_bpe([" ".join(words)] * 3, SYMBOLS)
    model = Model(lively(name), (tokenizer, tokenizer))
    heard = random.Random(3).choices([*words, "cab."], k=20)
    session = model.session()
    text = "".join(session.push(word) for word in heard) + session.finish()
    check(session, heard, text)


@pytest.mark.parametrize("text", ["", "   ", "\n\t", "—", "? !", ". “ !", "… ka .", "\u200b", "🙂"])
@pytest.mark.parametrize("end", ["pause", "finish"])
def test_nothing_marks_and_spaces(models: list[Model], text: str, end: str) -> None:
    """Where nothing is said, nothing is written. Planted bug: the model is woken for a mark."""
    session = models[0].session()
    out = session.push(text) + getattr(session, end)()
    check(session, text.split(), out)
    if not any(character.isalnum() for character in text):
        assert out == ""
        assert [event.reason for event in ends(session.events)] == [end] * bool(text.split())
    assert session.finish() == "" and session.pause() == ""
    first = session.push("nolu") + session.finish()
    assert first and not first.startswith(" "), "after a finish a line begins"


@pytest.mark.parametrize("end", ["pause", "finish"])
def test_a_sentence_with_a_word_in_it_is_never_translated_by_nothing(
    tokenizer: Tokenizer, end: str
) -> None:
    """Not even where the whole source is read before the first token is written."""
    session = leaning(model_of(tokenizer, 8), [""], 30.0).session(lower=5)
    out = session.push("ka") + getattr(session, end)()
    check(session, ["ka"], out)
    assert out


def test_a_mark_of_a_sentence_that_the_model_ended_opens_the_next(tokenizer: Tokenizer) -> None:
    """Planted bug: marks before the first word are dropped."""
    model = leaning(model_of(tokenizer, 8), [""], 30.0)
    session = model.session(lower=1)
    for word in ("nolu", ".", "ka", "besi", "."):
        session.push(word)
    session.finish()
    over = ends(session.events)
    assert (over[0].source, over[0].reason) == ("nolu", "model")
    assert over[1].source.startswith(". ka")
    assert " ".join(end.source for end in over) == "nolu . ka besi ."


def test_a_word_of_100_000_characters(models: list[Model]) -> None:
    """Its beginning is read and kept, which is reported; none of it is remembered."""
    session = models[0].session()
    word = "nolu-besi," * 10_000
    text = session.push("ka " + word) + session.push("ka.") + session.finish()
    notices = [event for event in session.events if isinstance(event, Notice)]
    assert [notice.code for notice in notices] == ["long_word"]
    session.events.remove(notices[0])
    check(session, ["ka", word[:300], "ka."], text)
    assert max(len(record.source_tokens) for record in session.records) < 1024
    assert max(map(len, models[0].source_tokenizer._remembered)) <= 100


def test_only_so_much_is_kept(models: list[Model]) -> None:
    """Planted bugs: records kept for ever; events of sentences whose record is gone."""
    session = models[0].session(keep=10)
    heard = 0
    for _ in range(40):
        session.push("ka nolu.")
        heard += 2
    session.finish()
    assert 10 <= len(session.records) <= 11
    assert session.events[0].sentence == session.records[0].index
    assert session.records[-1].index == session.events[-1].sentence
    assert f"{heard} words" in repr(session)
    with pytest.raises(UserError, match="keep = 0"):
        models[0].session(keep=0)


@pytest.mark.parametrize("most_rows", [1, 30, 1000])  # one candidate at a time, some, all
def test_a_border_is_one_of_the_last_words(
    models: list[Model], monkeypatch: pytest.MonkeyPatch, most_rows: int
) -> None:
    """The best of all borders, by brute force over whole forced passes.

    Planted bug: all candidates are scored at once, however much memory they take.
    """
    model = models[1]
    target = model.target_tokenizer.encode("nolu ka besi.")
    monkeypatch.setattr("hmt.streaming.borders.MOST_ROWS", most_rows)
    score, rows = model.system.score, []

    def counted(batch: Batch, *others: Any) -> torch.Tensor:
        rows.append(batch.target.numel())
        return score(batch, *others)

    monkeypatch.setattr(model.system, "score", counted)
    end_decides = 0
    for seed in range(8):
        draw = random.Random(seed)
        words = [model.source_tokenizer.encode(draw.choice(BARE)) for _ in range(14)]
        found = {n: forced_log_probs(model, words[:n], target) for n in range(14 - CANDIDATES, 15)}
        border = find_border(model.system, model.knobs(), words, target)
        assert border.words == max(found, key=lambda n: sum(found[n]))
        assert border.end_log_prob == pytest.approx(found[border.words][-1])
        end_decides += border.words != max(found, key=lambda n: sum(found[n][:-1]))
        assert find_border(model.system, model.knobs(), words[:1], target).words == 1
    assert end_decides, "the end of the text must matter in some of the cases"
    assert max(rows) <= max(most_rows, len(target) + 1)


def forced_log_probs(
    model: Model, words: Sequence[Sequence[int]], target: Sequence[int]
) -> list[float]:
    """Log-probabilities of a text and its end, each token given the whole source."""
    engine = model.engine()
    stream = engine.open(model.system.seeing_all(model.knobs()), [*target, EOS])
    engine.push(stream, [token for word in words for token in word])
    engine.finish(stream)
    engine.advance([stream])
    return stream.log_probs


# ---- the dial

MOVES: list[dict[str, Any]] = [
    {"threshold": 0.1},
    {"threshold": 0.9},
    {"policy": "last"},
    {"lower": 1},
    {"lower": 4, "threshold": 0.3},
    {"states": 1},
    {"states": 3, "policy": "confidence"},
]


@pytest.mark.parametrize("seed", range(6))
def test_the_dial_moves_as_an_engine_driven_by_hand(models: list[Model], seed: int) -> None:
    """Planted bugs: `lower` and `states` reach the open sentence; movable knobs do not; knobs that
    wait are forgotten."""
    model, draw = models[seed % 3], random.Random(seed)
    session = model.session(by_line=True)
    engine = model.engine()
    chosen: dict[str, Any] = {}
    for _ in range(4):
        stream = engine.open(model.knobs(**chosen))
        for word in draw.choices(BARE, k=12):
            engine.push(stream, model.source_tokenizer.encode(word))
            session.push(word)
            engine.advance([stream])
            if draw.random() < 0.3:
                move = draw.choice(MOVES)
                chosen |= move
                now = {key: move[key] for key in move if key in ("threshold", "policy")}
                stream.knobs = model.knobs(**{**to_plain(stream.knobs), **now})
                applies = {key: "now" if key in now else "next_sentence" for key in move}
                assert session.set(**move) == applies
            assert session.stream.knobs == stream.knobs
        engine.finish(stream)
        session.finish()
        engine.advance([stream])
        assert (session.stream.target, session.stream.reads) == (stream.target, stream.reads)
        engine.close(stream)
        assert session.set(lower=2) == {"lower": "now"}
        chosen["lower"] = 2


def test_random_moves_lose_nothing(models: list[Model]) -> None:
    for seed in range(4):
        session, said, draw = models[seed % 3].session(), script(seed), random.Random(seed)
        text = ""
        for step in said.steps:
            text += play(session, Script([step]))
            session.set(**draw.choice(MOVES))
        events = [event for event in session.events if not isinstance(event, Notice)]
        session.events[:] = events
        check(session, said.words, text)


def test_a_wrong_setting_changes_nothing(models: list[Model]) -> None:
    session = models[0].session(threshold=0.4)
    session.push("nolu")
    for wrong in ({"speed": 1}, {"lower": 2.5}, {"threshold": 0.9, "states": 0}):
        with pytest.raises(UserError):
            session.set(**wrong)
    assert session.stream.knobs == models[0].knobs(threshold=0.4)


def test_untrained_settings_are_reported_once(
    models: list[Model], caplog: pytest.LogCaptureFixture
) -> None:
    """In the log and as an event. Planted bug: a warning at every set."""
    with caplog.at_level(logging.WARNING):
        session = models[0].session(lower=50)
        session.push("nolu ka")
        session.set(lower=2)
        session.set(lower=50, threshold=0.3)
        session.set(states=90)
    notices = [event for event in session.events if isinstance(event, Notice)]
    assert [notice.code for notice in notices] == ["untrained"] * 2
    assert "lower = 50" in notices[0].message and "states = 90" in notices[1].message
    assert [record.message for record in caplog.records] == [n.message for n in notices]
    assert notices[1].seconds > 0
    caplog.clear()
    for threshold in (0.0, 0.9, 1.0):
        models[0].session(threshold=threshold).push("nolu")
    assert not caplog.records


@pytest.mark.parametrize("name", ["hmt", "mma", "gsimt"])
def test_a_threshold_that_is_no_probability_is_doubted(name: str) -> None:
    """Planted bug: any threshold passes without a word."""
    system = lively(name)
    for threshold, effect in ((-1.0, "every probability"), (2.0, "no probability")):
        [doubt] = system.doubts(system.knobs(threshold=threshold))
        assert f"threshold = {threshold}" in doubt and effect in doubt
    for threshold in (0.0, 0.5, 1.0):
        assert system.doubts(system.knobs(threshold=threshold)) == []


# ---- threads, mistakes, housekeeping


def test_one_session_in_two_threads_is_one_clear_error(models: list[Model]) -> None:
    """Planted bug: two threads advance one stream side by side."""
    is_inside, may_go = threading.Event(), threading.Event()

    def slow(_: Event) -> None:
        is_inside.set()
        assert may_go.wait(30)

    session = models[0].session(listener=slow)
    thread = threading.Thread(target=lambda: session.push("nolu ka besi tarum."))
    thread.start()
    assert is_inside.wait(30)
    for call in (lambda: session.push("ka"), session.finish, session.close, session.commit):
        with pytest.raises(UserError, match="in use by another thread"):
            call()
    may_go.set()
    thread.join()
    session.listener = None
    session.finish()
    assert [end.source for end in ends(session.events)] == ["nolu ka besi tarum."]


def test_one_model_in_many_threads(models: list[Model]) -> None:
    model, said = models[0], script(4)
    alone = model.session()
    expected = play(alone, said)
    texts: list[str] = []
    threads = [
        threading.Thread(target=lambda: texts.append(play(model.session(), said))) for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert texts == [expected] * 6


@pytest.mark.parametrize("wrong", [None, b"nolu", 3, ["nolu"]])
def test_only_text_can_be_pushed(models: list[Model], wrong: Any) -> None:
    session = models[0].session()
    for call in (session.push, session.guess):
        with pytest.raises(UserError, match=f"not {type(wrong).__name__}"):
            call(wrong)
    assert session.push("nolu") + session.finish()


def test_a_session_in_a_with_statement(models: list[Model]) -> None:
    model, engine = models[0], models[0].engine()
    with Session(engine, model.tokenizers, model.knobs) as session:
        session.push("nolu ka")
        assert engine.free == []
    assert engine.free == [0]
    assert repr(session).startswith("<Session: 1 sentence, 2 words; lower=")


def test_a_record_as_one_line(models: list[Model]) -> None:
    record = models[0].translate(["Nolu ka, besi tarum!"])[0]
    assert str(record).startswith(f"0: Nolu ka, besi tarum! -> {record.prediction[:57]}")
    assert f"first text after {record.reads[0]} of {len(record.source_tokens)} tokens" in str(
        record
    )
    assert "\n" not in str(record) and "lower=2" in str(record)


# ---- a recogniser that changes its mind


def traces(draw: random.Random, final: list[str]) -> Iterator[tuple[str, int]]:
    """Guesses of one utterance, and how many of their words are right for good."""
    right = 0
    while right < len(final):
        right = min(len(final), right + draw.randint(0, 3))
        wrong = draw.choices(BARE, k=draw.randint(0, 3))
        yield " ".join(final[:right] + wrong), right


@pytest.mark.parametrize("seed", range(4))
def test_a_tail_that_changes_costs_nothing(models: list[Model], seed: int) -> None:
    """What is read is the final text, and what was shown is that of a session that heard only it.

    Planted bugs: the tail is pushed; words of the last guess lost at the commit.
    """
    draw, model = random.Random(seed), models[seed % 3]
    session, plain = model.session(), model.session()
    shown = expected = ""
    heard: list[str] = []
    for _ in range(4):
        final = draw.choices(BARE, k=draw.randint(3, 9))
        committed = 0
        for guess, committed in traces(draw, final):
            before = shown
            shown += session.guess(guess, committed)
            assert shown.startswith(before)
            assert session.tentative.split() == guess.split()[committed:]
        tail = session.tentative.split()
        shown += session.commit()
        assert session.tentative == ""
        heard += final[:committed] + tail
        expected += plain.push(" ".join(final[:committed] + tail)) + plain.pause()
    assert shown == expected
    assert timeless(session.events) == timeless(plain.events)
    session.finish()
    assert [w for end in ends(session.events) for w in end.source.split()] == heard


def test_a_conflict_is_reported(models: list[Model]) -> None:
    session = models[0].session()
    session.guess("nolu ka besi", 2)
    session.guess("nolu lim besi tarum", 2)
    session.guess("nolu lim besi tarum", 3)
    session.commit()
    notices = [event for event in session.events if isinstance(event, Notice)]
    assert [notice.code for notice in notices] == ["conflict"]
    assert [end.source for end in ends(session.events)] == ["nolu ka besi tarum"] or (
        " ".join(end.source for end in ends(session.events)) == "nolu ka besi tarum"
    )
    with pytest.raises(UserError, match="5 words were committed of a guess that has 1"):
        session.guess("nolu", 5)


def sources(session: Session) -> list[str]:
    return [word for end in ends(session.events) for word in end.source.split()]


def test_the_end_makes_the_last_guess_final(models: list[Model]) -> None:
    """Planted bug: the tail stays behind and swallows words of the next utterance."""
    session = models[0].session()
    session.guess("nolu ka")
    session.guess("nolu ka besi")
    session.finish()
    assert session.tentative == "" and sources(session) == ["nolu", "ka", "besi"]
    session.guess("tarum lim ka", committed=3)
    session.finish()
    assert sources(session) == ["nolu", "ka", "besi", "tarum", "lim", "ka"]
    assert not any(isinstance(event, Notice) for event in session.events)


def test_a_push_after_guesses_is_their_result(models: list[Model]) -> None:
    """Planted bug: its words are heard beside those of the guesses."""
    session = models[0].session()
    session.guess("nolu ka")
    session.guess("nolu ka besi")
    session.push("nolu ka lim tarum")
    session.push("besi")  # the utterance is over: this is just another word
    session.guess("nolu", committed=1)
    session.finish()
    assert sources(session) == ["nolu", "ka", "lim", "tarum", "besi", "nolu"]
    session.guess("ka besi", committed=2)
    session.push("tarum")  # nothing in common with what was final: what comes after it
    session.finish()
    assert sources(session)[-3:] == ["ka", "besi", "tarum"]
    assert not any(isinstance(event, Notice) for event in session.events)


def test_a_tail_has_the_time_of_its_guess(models: list[Model]) -> None:
    """Planted bug: words that are final at a commit without a time have none."""
    session = models[0].session()
    session.guess("nolu ka besi tarum", spoken=60.0)
    session.commit()
    times = [event.spoken for event in session.events if isinstance(event, Written)]
    assert times and set(times) == {60.0}
    session.guess("nolu ka besi tarum", spoken=70.0)
    session.commit(80.0)
    times = [event.spoken for event in session.events if isinstance(event, Written)]
    assert times[-1] == 80.0


def test_notices_are_in_the_log(models: list[Model], caplog: pytest.LogCaptureFixture) -> None:
    """Planted bug: only doubts about settings are."""
    with caplog.at_level(logging.WARNING):
        session = models[0].session()
        session.push("nolu" * 100)
        session.guess("ka besi", 2)
        session.guess("ka lim", 2)
    notices = [event for event in session.events if isinstance(event, Notice)]
    assert [notice.code for notice in notices] == ["long_word", "conflict"]
    assert [record.message for record in caplog.records] == [n.message for n in notices]


def test_half_a_character_is_replaced(models: list[Model]) -> None:
    """Planted bug: it is kept, and no listener can write the event to a file."""
    session = models[0].session()
    session.push("nolu \ud800 ka")
    session.finish()
    assert sources(session) == ["nolu", "\ufffd", "ka"]


def test_marks_alone_are_no_sentence(tokenizer: Tokenizer) -> None:
    """Planted bug: the model may end a sentence within the marks before its first word."""
    session = model_of(tokenizer, 4).session(lower=1)
    heard = ["..."] * 12 + ["nolu"] + ["..."] * 9 + ["ka", "besi"]
    text = "".join([session.push(word) for word in heard]) + session.finish()
    check(session, heard, text)
    assert len(ends(session.events)) > 1, "the model ends sentences"
    for end in ends(session.events):
        assert any(map(str.isalnum, end.source)) or not end.text
