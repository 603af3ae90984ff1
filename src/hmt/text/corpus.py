"""Prepared parallel text: memory-mapped token files of pairs that open at once at any size.

A prepared directory holds `data.json`, one tokenizer file (or one per side) and, for each split
and side, `SPLIT.SIDE.tokens` (ids of all sentences, each with its end token) and
`SPLIT.SIDE.offsets` (where each sentence starts, and the end; N + 1 numbers).
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hmt.errors import UserError
from hmt.files import refuse_special
from hmt.plain import from_plain, json_object, shortened
from hmt.text.encoder import SplitReport
from hmt.text.language_pair import SIDES

FORMAT = 1
DATA_FILE = "data.json"
KINDS = ("tokens", "offsets")


@dataclass(frozen=True, eq=False)
class Side:
    """One language of a split; N sentences."""

    tokens: NDArray[np.unsignedinteger[Any]]
    offsets: NDArray[np.int64]
    lengths: NDArray[np.int32]

    @classmethod
    def open(cls, directory: Path, split: str, side: str, dtype: str) -> "Side":
        """Map the two files of one side and check that they belong together."""
        stem = directory / f"{split}.{side}"
        for kind in KINDS:
            refuse_special(directory / f"{split}.{side}.{kind}")
        try:
            offsets = np.memmap(f"{stem}.offsets", dtype="<i8", mode="r")
            tokens = np.memmap(f"{stem}.tokens", dtype=np.dtype(dtype).newbyteorder("<"), mode="r")
        except (OSError, ValueError) as error:
            raise UserError(
                f"The token files {stem}.* cannot be opened ({error}); run hmt prepare again."
            ) from error
        if offsets[0] != 0 or offsets[-1] != len(tokens):
            raise UserError(
                f"{stem}.tokens holds {len(tokens)} tokens but {stem}.offsets expects "
                f"{offsets[-1]}; run hmt prepare again."
            )
        lengths = np.diff(offsets)
        # an offset of 2^63 - 1 also makes a negative difference
        if len(lengths) and not 1 <= lengths.min() <= lengths.max() < 2**31:
            raise UserError(
                f"{stem}.offsets is damaged: its numbers do not increase; run hmt prepare again."
            )
        return cls(tokens, offsets, lengths.astype(np.int32))

    def sentence(self, n: int) -> NDArray[np.int64]:
        """Ids of sentence n, end token included; (J,)."""
        if not 0 <= n < len(self.lengths):
            raise IndexError(f"sentence {n} of {len(self.lengths)}")
        return self.tokens[self.offsets[n] : self.offsets[n + 1]].astype(np.int64)


@dataclass(frozen=True, eq=False)
class Corpus:
    """The pairs of one split of a prepared directory."""

    sides: tuple[Side, Side]

    @classmethod
    def open(cls, directory: str | Path, split: str) -> "Corpus":
        """Map the pairs of `split` ("train", "valid" or "test"); nothing is read into memory."""
        directory = Path(directory)
        data = read_data(directory)
        splits = list(data.report.splits)
        if split not in splits:
            raise UserError(
                f'{directory} has no split "{split}"; it has {", ".join(splits)}. '
                "Give its files to hmt prepare."
            )
        source, target = (Side.open(directory, split, side, data.dtype) for side in SIDES)
        if len(source.lengths) != len(target.lengths):
            raise UserError(
                f"{directory} holds {len(source.lengths)} sources but {len(target.lengths)} "
                f'targets in split "{split}"; run hmt prepare again.'
            )
        return cls((source, target))

    def __len__(self) -> int:
        return len(self.sides[0].lengths)

    @property
    def source_lengths(self) -> NDArray[np.int32]:
        """Source tokens of every pair, end token included; (N,)."""
        return self.sides[0].lengths

    @property
    def target_lengths(self) -> NDArray[np.int32]:
        """Target tokens of every pair, end token included; (N,)."""
        return self.sides[1].lengths

    def source(self, n: int) -> NDArray[np.int64]:
        """Source ids of pair n, end token included; (J,)."""
        return self.sides[0].sentence(n)

    def target(self, n: int) -> NDArray[np.int64]:
        """Target ids of pair n, end token included; (I,)."""
        return self.sides[1].sentence(n)


@dataclass(frozen=True)
class Report:
    """What `hmt prepare` did."""

    source_size: int
    target_size: int
    vocabulary_lines: int
    splits: dict[str, SplitReport]


@dataclass(frozen=True)
class PreparedData:
    """`data.json`: what a prepared directory holds, and everything that determined it."""

    format: int
    settings: dict[str, Any]
    inputs: dict[str, dict[str, Any]]  # lines and checksum of each file
    dtype: Literal["uint16", "uint32"]  # of the token files
    report: Report
    files: dict[str, list[str]]  # source and target file of each split
    versions: dict[str, str]
    digests: dict[str, str] = field(default_factory=dict)  # of all other files, by name


def read_data(directory: Path) -> PreparedData:
    """`data.json` of a prepared directory."""
    path = directory / DATA_FILE
    refuse_special(path)
    try:
        values = json_object(path.read_text(encoding="utf-8"))
        if values.get("format") != FORMAT:
            raise UserError(
                f"it has format {shortened(values.get('format'))}, but this version of hmt reads "
                f"format {FORMAT}"
            )
        return from_plain(PreparedData, values)
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(
            f"{directory} is not a prepared directory: it has no {DATA_FILE}; make one with "
            "hmt prepare."
        ) from None
    except (OSError, UnicodeDecodeError, UserError) as error:
        reason = str(error).rstrip(".")
        raise UserError(f"{path} cannot be read ({reason}); run hmt prepare again.") from error


def check_ids(directory: Path, split: str, corpus: Corpus, sizes: tuple[int, int]) -> None:
    """Refuse token ids that the tokenizers do not have; reads every token, at disk speed."""
    for name, side, size in zip(SIDES, corpus.sides, sizes, strict=True):
        if len(side.tokens) and side.tokens.max() >= size:
            raise UserError(
                f"{directory / f'{split}.{name}.tokens'} is damaged: it has the id "
                f"{side.tokens.max()}, but the tokenizer has {size} symbols; run hmt prepare again."
            )


def digest_of(path: Path) -> str:
    """The checksum of a file; 1.5 GB per second."""
    refuse_special(path)
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise UserError(
            f"{path} cannot be read ({error.strerror}); check its permissions."
        ) from None


def checked_digests(directory: Path, splits: Iterable[str]) -> dict[str, str]:
    """Checksums of the files of some splits, by name; refuses files that have changed.

    Data that an earlier version prepared has no checksums to compare with.
    """
    known = read_data(directory).digests
    names = [f"{split}.{side}.{kind}" for split in splits for side in SIDES for kind in KINDS]
    found = {name: digest_of(directory / name) for name in names}
    tokenizers = (name for name in known if name.endswith(".json"))
    found |= {name: digest_of(directory / name) for name in tokenizers}
    for name, digest in found.items():
        if known.get(name, digest) != digest:
            raise UserError(
                f"{directory / name} is damaged: it is not what hmt prepare wrote; prepare the "
                "data again, into another directory."
            )
    return found


class SideWriter:
    """Appends sentences to the two files of one side."""

    def __init__(self, directory: Path, split: str, side: str, dtype: str) -> None:
        self._dtype = np.dtype(dtype).newbyteorder("<")
        self._tokens = (directory / f"{split}.{side}.tokens").open("wb")
        self._offsets = (directory / f"{split}.{side}.offsets").open("wb")
        self._end = 0
        self._offsets.write(np.zeros(1, "<i8").tobytes())

    def add(self, tokens: NDArray[Any], lengths: NDArray[Any]) -> None:
        """Append sentences of these lengths, laid end to end; (sum of lengths,), (N,)."""
        self._tokens.write(tokens.astype(self._dtype).tobytes())
        ends = np.cumsum(lengths, dtype=np.int64) + self._end
        self._offsets.write(ends.astype("<i8").tobytes())
        self._end += len(tokens)

    def __enter__(self) -> "SideWriter":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._tokens.close()
        self._offsets.close()
