"""The kinds of tokenizer that hmt makes with the `tokenizers` library, the only ones it reads.

A tokenizer file can ask the library for much more: normalisers that turn one word into gigabytes,
padding to any length, regular expressions that never finish. Anything that hmt never writes is
refused.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import tokenizers as hf
from tokenizers import decoders, models, normalizers, pre_tokenizers

from hmt.errors import UserError
from hmt.limits import MAX_SYMBOL_CHARACTERS, MOST_SYMBOLS
from hmt.plain import json_object
from hmt.text.symbols import SPECIALS, UNK

MARK = "▁"
END_OF_WORD = "</w>"
# Punctuation, symbols and digits stand alone, with the word mark if they start the word.
ALONE = rf"{MARK}?[[\p{{P}}\p{{S}}\p{{Nd}}]&&[^{MARK}]]"

Vocabulary = dict[str, int]
Merges = list[tuple[str, str]]


def bpe(*, lowercase: bool, tokenised: bool) -> hf.Tokenizer:
    """An untrained byte-pair encoding with a mark where a word starts."""
    backend = hf.Tokenizer(models.BPE(unk_token=SPECIALS[UNK], fuse_unk=True))
    # The word mark in the input would read as the start of another word.
    backend.normalizer = normalizers.Sequence(
        [*_composed(lowercase), normalizers.Replace(MARK, "_")]
    )
    steps = [
        pre_tokenizers.WhitespaceSplit(),
        pre_tokenizers.Metaspace(MARK, prepend_scheme="always", split=False),
    ]
    if not tokenised:
        steps.append(pre_tokenizers.Split(hf.Regex(ALONE), "isolated"))
    backend.pre_tokenizer = pre_tokenizers.Sequence(steps)
    backend.decoder = decoders.Metaspace(MARK)
    return backend


def words(*, lowercase: bool) -> hf.Tokenizer:
    """An untrained vocabulary of whole words."""
    backend = given_words({})
    backend.normalizer = normalizers.Sequence(_composed(lowercase))
    return backend


def given_words(vocabulary: Vocabulary) -> hf.Tokenizer:
    """A given vocabulary of whole words."""
    backend = hf.Tokenizer(models.WordLevel(vocabulary, unk_token=SPECIALS[UNK]))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return backend


def given_pieces(vocabulary: Vocabulary, merges: Merges) -> hf.Tokenizer:
    """A given byte-pair encoding with a mark where a word ends, as in subword-nmt."""
    backend = hf.Tokenizer(
        models.BPE(vocabulary, merges, unk_token=SPECIALS[UNK], end_of_word_suffix=END_OF_WORD)
    )
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.decoder = decoders.BPEDecoder(suffix=END_OF_WORD)
    return backend


def _composed(lowercase: bool) -> list[normalizers.Normalizer]:
    return [*([normalizers.Lowercase()] if lowercase else []), normalizers.NFC()]


def read_backend(text: str) -> hf.Tokenizer:
    """Read one of the above from the contents of its file; anything else is refused."""
    values = json_object(text)
    model = values.get("model")
    if not isinstance(model, dict):
        raise UserError("it has no model")
    parts = {key: value for key, value in values.items() if key != "added_tokens"}
    parts["model"] = {key: model[key] for key in model if key not in ("vocab", "merges")}
    _check_parts(parts)
    _check_vocabulary(model.get("vocab"))
    if values.get("added_tokens", []) not in ([], _added_tokens()):
        raise UserError("its added_tokens are not those that hmt writes")
    # not the text itself, in which a second "normalizer" key may follow the one that was checked
    checked = json.dumps(values)
    try:
        with library():
            return hf.Tokenizer.from_str(checked)
    except Exception as error:  # the library raises bare Exception for a malformed file
        raise UserError(f"not a tokenizer: {error}") from error


def _check_parts(parts: dict[str, Any]) -> None:
    if any(_agrees(parts, ours) for ours in _allowed()):
        return
    strange = (
        key for key in parts if not any(_agrees(parts[key], ours.get(key)) for ours in _allowed())
    )
    what = next(strange, "combination of parts")
    raise UserError(f"its {what} is not one that hmt writes")


def _check_vocabulary(vocabulary: Any) -> None:
    if not isinstance(vocabulary, dict) or len(vocabulary) > MOST_SYMBOLS:
        raise UserError(f"its vocabulary is not a table of at most {MOST_SYMBOLS:,} entries")
    ids = list(vocabulary.values())
    if {*map(type, ids)} != {int} or sorted(ids) != list(range(len(ids))):
        raise UserError("its ids are not 0, 1, 2, and so on")
    if [vocabulary.get(special) for special in SPECIALS] != list(range(len(SPECIALS))):
        raise UserError(f"its first four entries are not {' '.join(SPECIALS)}")
    if any(len(symbol) > MAX_SYMBOL_CHARACTERS for symbol in vocabulary):
        raise UserError(f"an entry has more than {MAX_SYMBOL_CHARACTERS:,} characters")


@contextmanager
def library() -> Iterator[None]:
    """Wraps calls of the library, whose panics are not Exceptions and would end a server."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise UserError(f"The tokenizers library failed: {error}.") from None


@cache
def _allowed() -> list[dict[str, Any]]:
    """Everything but the vocabulary of each kind of tokenizer, as stored in its file."""
    bools = (False, True)
    backends = [
        *(bpe(lowercase=lower, tokenised=tokenised) for lower in bools for tokenised in bools),
        *(words(lowercase=lower) for lower in bools),
        given_words({}),
        given_pieces({}, []),
    ]
    found = [json.loads(backend.to_str()) for backend in backends]
    for values in found:
        del values["added_tokens"], values["model"]["vocab"]
        values["model"].pop("merges", None)
    return found


@cache
def _added_tokens() -> list[dict[str, Any]]:
    backend = given_words({special: id for id, special in enumerate(SPECIALS)})
    backend.add_special_tokens(list(SPECIALS))
    tokens: list[dict[str, Any]] = json.loads(backend.to_str())["added_tokens"]
    return tokens


def _agrees(given: Any, ours: Any) -> bool:
    """Whether two parts are equal; other versions of the library may omit what is switched off."""
    if isinstance(given, dict) and isinstance(ours, dict):
        return all(_agrees(given.get(key), ours.get(key)) for key in given.keys() | ours.keys())
    if isinstance(given, list) and isinstance(ours, list):
        return len(given) == len(ours) and all(map(_agrees, given, ours))
    if not given and not ours:
        return given in (None, False) and ours in (None, False)
    return type(given) is type(ours) and bool(given == ours)
