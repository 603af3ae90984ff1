"""Text to token ids and back, one word at a time, so that more text never changes earlier ids."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Self

import tokenizers as hf
from tokenizers import models, trainers

from hmt.errors import UserError
from hmt.files import refuse_special, write_atomically
from hmt.limits import MAX_WORD_CHARACTERS
from hmt.text import backends
from hmt.text.backends import END_OF_WORD, MARK
from hmt.text.pieces import Detokenizer, Piece
from hmt.text.symbols import BOS, EOS, FIRST_WRITABLE, PAD, SPECIALS, UNK

__all__ = [
    "BOS",
    "EOS",
    "FIRST_WRITABLE",
    "PAD",
    "SPECIALS",
    "UNK",
    "Tokenizer",
    "bpe_tokenizer_from_codes",
    "train_bpe",
    "train_words",
    "word_tokenizer",
]

CONTINUES = "@@"
# Entries from this one on are steps of merges that the imported dictionary does not hold.
SCAFFOLD = "<scaffold>"
# About 60 MB of remembered words; natural text repeats nearly all of its words within that.
REMEMBERED_WORDS = 200_000
REMEMBERED_CHARACTERS = 100  # a longer "word" hardly ever occurs again


class Tokenizer:
    """A vocabulary and its rule for cutting a word into pieces (a `tokenizer.json` on disk)."""

    def __init__(self, backend: hf.Tokenizer) -> None:
        # Input that happens to contain "</s>" is text: it must not end the sentence.
        backend.encode_special_tokens = True
        self.backend = backend
        self._symbols = _symbols(backend)
        self.pieces = _pieces(backend, self._symbols)
        self.size = len(self.pieces)
        self._remembered: dict[str, tuple[int, ...]] = {}

    def encode(self, text: str) -> list[int]:
        """Ids of `text` without an end token: the ids of its words, one after the other; (J,).

        Only the first MAX_WORD_CHARACTERS of a word are read.
        """
        return self.encode_batch([text])[0]

    def encode_batch(self, lines: Sequence[str]) -> list[list[int]]:
        """`encode` of every line; B x (J,)."""
        sentences = [line.split() for line in lines]
        ids = self._word_ids(set(chain.from_iterable(sentences)))
        return [list(chain.from_iterable(map(ids.__getitem__, words))) for words in sentences]

    def piece(self, id: int) -> str:
        """The vocabulary entry as it appears in tables and records."""
        return self._symbols[id]

    def decode(self, ids: Iterable[int]) -> str:
        """Readable text of `ids`; end token and pad are dropped, unknown shows as "<unk>"."""
        words = Detokenizer(self)
        return "".join(words.push(id) for id in ids)

    def normalize(self, text: str) -> str:
        """`text` as the vocabulary sees it: composed, single spaces, lower-cased if set so."""
        text = " ".join(_clean(text).split())
        normalizer = self.backend.normalizer
        return text if normalizer is None else str(normalizer.normalize_str(text))

    def to_json(self) -> str:
        """The contents of the tokenizer file."""
        return self.backend.to_str(pretty=True)

    def save(self, path: str | Path) -> None:
        """Write the tokenizer file."""
        write_atomically(Path(path), self.to_json())

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a tokenizer file."""
        refuse_special(Path(path))
        try:
            return cls.from_json(Path(path).read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise UserError(
                f"There is no tokenizer file {path}; hmt prepare makes one, and every model "
                "directory holds one."
            ) from None
        except (OSError, ValueError, UserError) as error:
            raise UserError(
                f"{path} cannot be used as a tokenizer file ({error}); "
                "give one made by hmt prepare or hmt convert."
            ) from error

    @classmethod
    def from_json(cls, text: str) -> Self:
        """A tokenizer from the contents of its file."""
        return cls(backends.read_backend(text))

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return type(self).from_json, (self.to_json(),)

    def _word_ids(self, words: set[str]) -> dict[str, tuple[int, ...]]:
        """Ids of each of these words."""
        table = self._remembered
        ids = {word: table[word] for word in words if word in table}
        missing = list(words - ids.keys())
        if missing:
            with backends.library():
                encodings = self.backend.encode_batch_fast(
                    [_clean(word[:MAX_WORD_CHARACTERS]) for word in missing],
                    add_special_tokens=False,
                )
            new = {
                word: tuple(id if UNK < id < self.size else UNK for id in encoding.ids)
                for word, encoding in zip(missing, encodings, strict=True)
            }
            ids.update(new)
            # First come, first kept: frequent words come early.
            short = (item for item in new.items() if len(item[0]) <= REMEMBERED_CHARACTERS)
            table.update(islice(short, max(0, REMEMBERED_WORDS - len(table))))
        return ids


def train_bpe(
    lines: Iterable[str], size: int, *, lowercase: bool = False, tokenised: bool = False
) -> Tokenizer:
    """Byte-pair encoding of `size` entries, the four special ones included.

    In raw text, punctuation and digits become separate pieces; `tokenised` text is not split
    further. Single characters take at most half of the vocabulary: beyond that, the rarest become
    unknown.
    """
    if size < 8:
        raise UserError(f"A vocabulary of {size} entries is too small; give 8 or more.")
    lines = list(lines) if isinstance(lines, Iterator) else lines
    tokenizer = _fit_bpe(lines, size, [MARK], size, lowercase, tokenised)
    characters = size // 2
    if sum(len(symbol) == 1 for symbol in tokenizer._symbols) > characters:
        counts: Counter[str] = Counter()
        for line in lines:
            counts.update(tokenizer.normalize(line))
        del counts[" "]
        # Not left to the trainer, which breaks ties differently from run to run.
        kept = sorted(counts, key=lambda c: (-counts[c], c))[: characters - 1]
        tokenizer = _fit_bpe(lines, size, [MARK, *kept], characters, lowercase, tokenised)
    return tokenizer


def train_words(lines: Iterable[str], min_count: int = 1, *, lowercase: bool = False) -> Tokenizer:
    """A vocabulary of the words seen at least `min_count` times, most frequent first."""
    if min_count < 1:
        raise UserError(f"The minimum word count is {min_count}; give 1 or more.")
    backend = backends.words(lowercase=lowercase)
    trainer = trainers.WordLevelTrainer(
        vocab_size=2**31,
        min_frequency=min_count,
        special_tokens=list(SPECIALS),
        show_progress=False,
    )
    with backends.library():
        backend.train_from_iterator(_one_spaced(lines), trainer)
    if backend.get_vocab_size() == len(SPECIALS):
        raise UserError(
            f"The text for the vocabulary has no word that occurs {min_count} times; lower the "
            "minimum."
        )
    return Tokenizer(backend)


def word_tokenizer(words: Sequence[str]) -> Tokenizer:
    """A given word vocabulary, in order; the four special entries are added in front if missing."""
    vocabulary = {word: id for id, word in enumerate(_with_specials(words))}
    return Tokenizer(backends.given_words(vocabulary))


def bpe_tokenizer_from_codes(codes: Iterable[str], dictionary: Sequence[str]) -> Tokenizer:
    """The tokenizer of subword-nmt codes (version 0.2) and a dictionary of its pieces, in order.

    The dictionary has "wor@@" where a word continues and "word" where it ends.
    """
    merges = _read_codes(codes)
    vocabulary = {
        word if id < len(SPECIALS) else _suffixed(word): id
        for id, word in enumerate(_with_specials(dictionary))
    }
    steps = chain.from_iterable((left, right, left + right) for left, right in merges)
    for symbol in (SCAFFOLD, *steps):
        vocabulary.setdefault(symbol, len(vocabulary))
    return Tokenizer(backends.given_pieces(vocabulary, merges))


def _fit_bpe(
    lines: Iterable[str],
    size: int,
    alphabet: list[str],
    characters: int,
    lowercase: bool,
    tokenised: bool,
) -> Tokenizer:
    backend = backends.bpe(lowercase=lowercase, tokenised=tokenised)
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=list(SPECIALS),
        initial_alphabet=alphabet,
        limit_alphabet=characters,
        show_progress=False,
    )
    with backends.library():
        backend.train_from_iterator(_one_spaced(lines), trainer)
    if backend.get_vocab_size() <= len(SPECIALS) + 1:
        raise UserError("The text for the vocabulary has no words; give other text.")
    return Tokenizer(backend)


def _one_spaced(lines: Iterable[str]) -> Iterator[str]:
    """Lines in which only spaces separate words: the library knows fewer separators than Python.

    Overlong words are cut here as they are when text is encoded.
    """
    return (" ".join(word[:MAX_WORD_CHARACTERS] for word in _clean(line).split()) for line in lines)


def _clean(text: str) -> str:
    """`text` with lone surrogates, which no encoding can carry, as question marks."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _with_specials(words: Sequence[str]) -> list[str]:
    given = list(words)
    vocabulary = given if tuple(given[:4]) == SPECIALS else [*SPECIALS, *given]
    if len(set(vocabulary)) < len(vocabulary):
        word = Counter(vocabulary).most_common(1)[0][0]
        raise UserError(f'The dictionary holds "{word}" twice; each entry must occur once.')
    return vocabulary


def _suffixed(word: str) -> str:
    if word.endswith(CONTINUES) and word != CONTINUES:
        return word.removesuffix(CONTINUES)
    return word + END_OF_WORD


def _read_codes(codes: Iterable[str]) -> list[tuple[str, str]]:
    merges: dict[tuple[str, str], None] = {}
    for number, line in enumerate(codes, 1):
        if number == 1:
            if line.split() != ["#version:", "0.2"]:
                raise UserError(
                    f'The codes start with "{line.strip()}" but only "#version: 0.2" of '
                    "subword-nmt can be read; learn the codes again with subword-nmt 0.3."
                )
        elif line.strip():
            pair = line.strip("\r\n ").split(" ")
            if len(pair) != 2:
                raise UserError(
                    f'Line {number} of the codes, "{line.strip()}", is not a pair; give the codes '
                    "that subword-nmt wrote."
                )
            merges.setdefault((pair[0], pair[1]))
    return list(merges)


def _symbols(backend: hf.Tokenizer) -> list[str]:
    """Vocabulary entries in order; (V,)."""
    vocabulary = backend.get_vocab(with_added_tokens=True)
    symbols = sorted(vocabulary, key=lambda symbol: vocabulary[symbol])
    if [vocabulary[symbol] for symbol in symbols] != list(range(len(symbols))):
        raise UserError("its ids are not 0, 1, 2, and so on")
    if tuple(symbols[:4]) != SPECIALS:
        raise UserError(f"its first four entries are not {' '.join(SPECIALS)}")
    return symbols


def _pieces(backend: hf.Tokenizer, symbols: list[str]) -> list[Piece]:
    """How each entry is shown; renames imported entries in `symbols` as in their dictionary."""
    decoder = json.loads(backend.to_str())["decoder"] or {"type": None}
    kind = decoder["type"]
    if kind == "Metaspace" and decoder["replacement"] == MARK:
        pieces = [_piece(s.removeprefix(MARK), not s.startswith(MARK), True) for s in symbols]
    elif kind == "BPEDecoder" and decoder["suffix"] == END_OF_WORD:
        if SCAFFOLD in symbols:
            del symbols[symbols.index(SCAFFOLD) :]
        ends = [n <= UNK or s.endswith(END_OF_WORD) for n, s in enumerate(symbols)]
        texts = [s.removesuffix(END_OF_WORD) for s in symbols]
        pieces = [_piece(text, True, not end) for text, end in zip(texts, ends, strict=True)]
        symbols[:] = [
            text if end else text + CONTINUES for text, end in zip(texts, ends, strict=True)
        ]
    elif kind is None and isinstance(backend.model, models.WordLevel):
        pieces = [_piece(s, False, False) for s in symbols]
    else:
        raise UserError(f"its decoder, {kind}, is not one that hmt prepare writes")
    return pieces


def _piece(text: str, joins_left: bool, joins_right: bool) -> Piece:
    # White space inside an imported entry would look like a word border.
    return Piece("".join(text.split()), joins_left, joins_right)
