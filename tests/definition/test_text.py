"""Tokenizers and live detokenising: definition, properties, bad input."""

import json
import pickle
import subprocess
import sys
import unicodedata
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
import tokenizers as hf
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import decoders

from hmt.errors import UserError
from hmt.text import tokenizer as tokenizer_module
from hmt.text.backends import given_words
from hmt.text.pieces import Detokenizer, word_ends
from hmt.text.symbols import BOS, EOS, PAD, SPECIALS, UNK
from hmt.text.tokenizer import (
    Tokenizer,
    bpe_tokenizer_from_codes,
    train_bpe,
    train_words,
    word_tokenizer,
)

LINES = [
    "Ich habe keine Zeit gehabt, weil ich (am 24. Mai) gearbeitet habe.",
    "„Was ist das?“, fragte sie; er sagte: Das weiß ich nicht!",
    "I didn't have time, because I worked 12 hours a day.",
    "The well-known answer – 42 % of $300 – isn't new.",
    "日本語 の 文 です 。 e\u0301te\u0301 👩‍👩‍👧 x_y",
] * 3
CODES = ["#version: 0.2", "l o", "lo w", "lo w</w>", "e r</w>", "n e", "ne w", "w er</w>"]
PIECES = ["lo@@", "low@@", "low", "er", "new@@", "n@@", "e@@", "l@@", "o@@", "w@@", "r@@"]
PIECES += ["l", "o", "w", "e", "r", "n", "s", "s@@", "t", "t@@"]

RAW = train_bpe(LINES, 320)
TOKENISED = train_bpe(LINES, 200, tokenised=True)
WORDS = train_words(LINES, 1)
CODED = bpe_tokenizer_from_codes(CODES, PIECES)
EVERY = [RAW, train_bpe(LINES, 320, lowercase=True), TOKENISED, WORDS, CODED]

# Arbitrary Unicode, and the characters that tokenizers trip over, often enough to matter.
TRAPS = "▁_ \u00a0\u200b\u200d\u2028\u3000\x00\x1c\x85\u0301\u0308ßİΣ日。👩🏽é1.,<s>/"
anything = st.text(st.one_of(st.sampled_from(TRAPS), st.characters()), max_size=30)


def pieces(tokenizer: Tokenizer, text: str) -> list[str]:
    return [tokenizer.piece(id) for id in tokenizer.encode(text)]


# Definition


def test_every_vocabulary_starts_with_the_four_special_symbols() -> None:
    assert (BOS, PAD, EOS, UNK) == (0, 1, 2, 3)
    for tokenizer in EVERY:
        assert [tokenizer.piece(id) for id in range(4)] == ["<s>", "<pad>", "</s>", "<unk>"]


def test_raw_text_comes_back_as_a_reader_expects_it() -> None:
    for line in LINES:
        assert RAW.decode(RAW.encode(line)) == unicodedata.normalize("NFC", line)


def test_punctuation_and_digits_are_pieces_of_their_own_in_raw_text_only() -> None:
    big = train_bpe(["gehabt, (2024) gehabt,"] * 9, 100)
    assert pieces(big, "gehabt, (2024)") == ["▁gehabt", ",", "▁(", "2", "0", "2", "4", ")"]
    whole = train_bpe(["gehabt, (2024) gehabt,"] * 9, 100, tokenised=True)
    assert pieces(whole, "gehabt, (2024)") == ["▁gehabt,", "▁(2024)"]


def test_the_vocabulary_has_the_asked_size() -> None:
    assert train_bpe(LINES, 130).size == 130


def test_words_below_the_frequency_cut_are_unknown() -> None:
    tokenizer = train_words(["five " * 5 + "four " * 4 + "six " * 6], 5)
    assert tokenizer.size == 6
    assert tokenizer.encode("six five four none") == [4, 5, UNK, UNK]
    assert tokenizer.decode([4, UNK, 5, EOS]) == "six <unk> five"


def test_equally_frequent_words_are_ordered_by_name() -> None:
    words = train_words(["b a d c"], 1)
    assert [words.piece(id) for id in range(4, 8)] == ["a", "b", "c", "d"]


def test_a_given_word_list_keeps_its_order() -> None:
    for words in (["b", "a"], [*SPECIALS, "b", "a"]):
        tokenizer = word_tokenizer(words)
        assert tokenizer.size == 6
        assert tokenizer.encode("a b wor@@ A") == [5, 4, UNK, UNK]


def test_lower_casing_travels_with_the_file(tmp_path: Path) -> None:
    for tokenizer in (
        train_bpe(["der hund ÄSE"] * 3, 60, lowercase=True),
        train_words(["der hund ÄSE"] * 3, 1, lowercase=True),
    ):
        tokenizer.save(tmp_path / "tokenizer.json")
        loaded = Tokenizer.load(tmp_path / "tokenizer.json")
        assert loaded.decode(loaded.encode("DER Hund äse")) == "der hund äse"


def test_composed_and_decomposed_text_are_the_same() -> None:
    assert RAW.encode("e\u0301te\u0301") == RAW.encode("\u00e9t\u00e9")


def test_training_is_the_same_in_every_process() -> None:
    # More characters than half the vocabulary, nearly all equally frequent: ties everywhere.
    code = (
        "from hmt.text.tokenizer import train_bpe\n"
        "import hashlib\n"
        "text = ' '.join(chr(0x4e00 + n) + chr(0x4e00 + n // 2) for n in range(300))\n"
        "print(hashlib.sha256(train_bpe([text], 200).to_json().encode()).hexdigest())"
    )
    runs = {
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout
        for _ in range(3)
    }
    assert len(runs) == 1


def test_characters_take_at_most_half_of_the_vocabulary() -> None:
    common = "abc abd abe " * 50
    rare = "".join(chr(0x4E00 + n) for n in range(300))
    tokenizer = train_bpe([common, rare], 100)
    singles = [id for id in range(tokenizer.size) if len(tokenizer.piece(id)) == 1]
    assert len(singles) == 50
    assert UNK not in tokenizer.encode("abc abd abe")
    assert UNK in tokenizer.encode(rare)


def test_an_iterator_may_be_used_up() -> None:
    rare = "".join(chr(0x4E00 + n) for n in range(300))
    lines = [rare, "ab ab"]
    assert train_bpe(iter(lines), 100).to_json() == train_bpe(lines, 100).to_json()


def subword_nmt(word: str, merges: Sequence[tuple[str, str]]) -> list[str]:
    """The published algorithm: apply the earliest learned pair everywhere, until none is left."""
    parts = [*word[:-1], word[-1] + "</w>"]
    while True:
        pairs = [pair for pair in pairwise(parts) if pair in merges]
        if not pairs:
            break
        best = min(pairs, key=merges.index)
        merged: list[str] = []
        for part in parts:
            if merged and (merged[-1], part) == best:
                merged[-1] += part
            else:
                merged.append(part)
        parts = merged
    return [p.removesuffix("</w>") if p.endswith("</w>") else p + "@@" for p in parts]


@given(st.text("lowernst", min_size=1, max_size=9))
@example("lower")
@example("newlowest")
def test_imported_codes_cut_words_as_subword_nmt_does(word: str) -> None:
    merges = [(left, right) for left, right in (line.split() for line in CODES[1:])]
    expected = [p if p in PIECES else "<unk>" for p in subword_nmt(word, merges)]
    assert pieces(CODED, word) == expected


def test_imported_codes_keep_the_ids_and_the_size_of_the_dictionary() -> None:
    assert CODED.size == 4 + len(PIECES)
    assert [CODED.piece(id) for id in range(4, CODED.size)] == PIECES
    # "ne" and "wer" are steps of merges without an entry of their own.
    assert pieces(CODED, "lower") == ["low@@", "er"]
    assert pieces(CODED, "new net") == ["<unk>", "w", "<unk>", "t"]
    assert CODED.decode(CODED.encode("lower low slow")) == "lower low slow"


# Properties


@given(anything, anything)
@example("▁", "▁a")
@example("a\x1cb", "\u0308a")
@example("\ud800", "a\udfff")
def test_ids_of_a_text_are_the_ids_of_its_words(left: str, right: str) -> None:
    for tokenizer in EVERY:
        text = left + " " + right
        whole = tokenizer.encode(text)
        assert whole == [id for word in text.split() for id in tokenizer.encode(word)]
        # And so that a word may come alone, the library must agree on the whole line.
        line = " ".join(text.encode("utf-8", "replace").decode("utf-8").split())
        direct = tokenizer.backend.encode(line, add_special_tokens=False).ids
        assert whole == [id if UNK < id < tokenizer.size else UNK for id in direct]


@given(anything)
@example("</s> x</s>y <s> <pad> <unk> </S>")
def test_no_text_yields_a_control_symbol(text: str) -> None:
    for tokenizer in EVERY:
        ids = tokenizer.encode(text)
        assert all(UNK <= id < tokenizer.size for id in ids)
        assert len(ids) >= len(text.split())


@given(anything)
@example("x</s>y <s> <unk>")
@example("▁ a▁b ▁c d▁")
def test_known_text_comes_back_with_single_spaces(text: str) -> None:
    if text.strip():
        for tokenised in (False, True):
            tokenizer = train_bpe([text], 500, tokenised=tokenised)
            plain = text.encode("utf-8", "replace").decode("utf-8").replace("▁", "_")
            plain = unicodedata.normalize("NFC", " ".join(plain.split()))
            assert tokenizer.decode(tokenizer.encode(text)) == plain == tokenizer.normalize(text)


@given(st.data())
def test_live_text_is_the_decoded_text_and_words_end_where_they_end(data: st.DataObject) -> None:
    for tokenizer in EVERY:
        ids = data.draw(st.lists(st.integers(0, min(tokenizer.size - 1, 60)), max_size=12))
        live = Detokenizer(tokenizer)
        shown = ""
        for n, id in enumerate(ids):
            shown += live.push(id)
            assert shown == tokenizer.decode(ids[: n + 1])
        assert shown == " ".join(shown.split())
        words, ends = shown.split(), word_ends(tokenizer, ids)
        assert len(ends) == len(words)
        for n, end in enumerate(ends):
            complete = " ".join(words[: n + 1])
            assert tokenizer.decode(ids[: end + 1]) == complete != tokenizer.decode(ids[:end])


def test_a_space_comes_with_the_word_that_it_precedes() -> None:
    live = Detokenizer(RAW)
    mark = next(id for id in range(RAW.size) if RAW.piece(id) == "▁")
    comma = next(id for id in range(RAW.size) if RAW.piece(id) == ",")
    assert [live.push(id) for id in (mark, UNK, comma, mark, mark, UNK, EOS)] == [
        "",
        "<unk>",
        ",",
        "",
        "",
        " <unk>",
        "",
    ]
    assert word_ends(RAW, [mark, UNK, comma, mark, mark, UNK, EOS]) == [2, 5]


def test_word_ends_of_a_sentence() -> None:
    ids = [*CODED.encode("lower low"), EOS]
    assert [CODED.piece(id) for id in ids] == ["low@@", "er", "low", "</s>"]
    assert word_ends(CODED, ids) == [1, 2]


def test_white_space_inside_an_imported_entry_is_no_word_border() -> None:
    tokenizer = word_tokenizer(["a\u00a0b", "c"])
    assert tokenizer.decode([4, 5]).split() == ["ab", "c"]
    assert word_ends(tokenizer, [4, 5]) == [0, 1]


def test_saving_loading_and_pickling_change_nothing(tmp_path: Path) -> None:
    for tokenizer in EVERY:
        tokenizer.save(tmp_path / "tokenizer.json")
        for other in (
            Tokenizer.load(tmp_path / "tokenizer.json"),
            pickle.loads(pickle.dumps(tokenizer)),
        ):
            assert other.encode_batch(LINES) == tokenizer.encode_batch(LINES)
            assert [other.piece(n) for n in range(other.size)] == [
                tokenizer.piece(n) for n in range(tokenizer.size)
            ]
            assert other.pieces == tokenizer.pieces


@settings(max_examples=20)
@given(st.lists(st.text("abcde ", max_size=20), max_size=10))
def test_remembering_few_words_changes_nothing_and_bounds_memory(lines: list[str]) -> None:
    expected = [RAW.encode(line) for line in lines]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokenizer_module, "REMEMBERED_WORDS", 3)
        small = Tokenizer.from_json(RAW.to_json())
        assert [small.encode(line) for line in lines] == expected
        assert small.encode_batch(lines) == expected
        assert len(small._remembered) <= 3


def test_real_text_comes_back(shared: Path) -> None:
    text = (shared / "data" / "newstest-de-en" / "newstest2015.de").read_text(encoding="utf-8")
    lines = text.split("\n")[:500]
    tokenizer = train_bpe(lines, 2000)
    for line in lines:
        assert tokenizer.decode(tokenizer.encode(line)) == tokenizer.normalize(line)
        assert tokenizer.normalize(line) == unicodedata.normalize("NFC", " ".join(line.split()))


# Bad input


def test_lone_surrogates_are_shown_as_question_marks() -> None:
    assert RAW.decode(RAW.encode("Zeit \ud800?")) == "Zeit ??"
    assert train_bpe(["a \udfff"], 50).size > 4


@pytest.mark.parametrize("content", ["", "{}", "not json", '{"version": "1.0"}', "[1]"])
def test_a_corrupt_file_is_named(content: str, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(content)
    with pytest.raises(UserError, match=r"tokenizer\.json cannot be used"):
        Tokenizer.load(path)


def test_a_cut_or_binary_or_missing_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    with pytest.raises(UserError, match="no tokenizer file"):
        Tokenizer.load(path)
    path.write_text(RAW.to_json()[:1000])
    with pytest.raises(UserError, match="cannot be used"):
        Tokenizer.load(path)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="cannot be used"):
        Tokenizer.load(path)
    with pytest.raises(UserError, match="is a directory, not a file"):
        Tokenizer.load(tmp_path)


def test_foreign_tokenizers_are_refused_with_the_reason() -> None:
    vocabulary = {word: id for id, word in enumerate([*SPECIALS, "a"])}
    for entries, reason in (
        ({"a": 0, "<unk>": 1}, "first four"),
        ({**vocabulary, "b": 9}, "ids are not"),
        ({**vocabulary, "b" * 2000: 5}, "more than 1,200 characters"),
    ):
        with pytest.raises(UserError, match=reason):
            Tokenizer.from_json(given_words(entries).to_str())
    foreign = given_words(vocabulary)
    foreign.decoder = decoders.ByteLevel()
    with pytest.raises(UserError, match="decoder"):
        Tokenizer.from_json(foreign.to_str())


def test_training_without_words_is_an_error() -> None:
    for lines in ([], ["", " \u3000 "]):
        with pytest.raises(UserError, match="no words"):
            train_bpe(lines, 100)
        with pytest.raises(UserError, match="no word"):
            train_words(lines, 1)
    with pytest.raises(UserError, match="occurs 5 times"):
        train_words(["a b c"], 5)


def test_impossible_settings_are_named() -> None:
    with pytest.raises(UserError, match="7 entries"):
        train_bpe(LINES, 7)
    with pytest.raises(UserError, match="minimum word count is 0"):
        train_words(LINES, 0)


def test_bad_dictionaries_and_codes_are_named() -> None:
    with pytest.raises(UserError, match='"a" twice'):
        word_tokenizer(["a", "b", "a"])
    with pytest.raises(UserError, match=r"version: 0\.2"):
        bpe_tokenizer_from_codes(["l o"], PIECES)
    with pytest.raises(UserError, match="Line 3"):
        bpe_tokenizer_from_codes(["#version: 0.2", "l o", "lo w er"], PIECES)


def test_the_file_is_plain_tokenizers_json() -> None:
    for tokenizer in EVERY:
        assert set(json.loads(tokenizer.to_json())) >= {"model", "normalizer", "decoder"}
        assert hf.Tokenizer.from_str(tokenizer.to_json())
