"""From parallel text files to a prepared directory: vocabulary, filtering, token files."""

import hashlib
import json
import os
import platform
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal

from hmt.errors import UserError
from hmt.files import drafting
from hmt.text.abandonable import abandonable
from hmt.text.corpus import (
    DATA_FILE,
    FORMAT,
    Corpus,
    PreparedData,
    Report,
    SideWriter,
    checked_digests,
    digest_of,
    read_data,
)
from hmt.text.encoder import Block, Encoder, SplitReport, encode_all
from hmt.text.language_pair import SIDES, Tokenizers, files_of
from hmt.text.lines import Sample, TextFile, open_lines, scan, unchanged
from hmt.text.tokenizer import Tokenizer, train_bpe, train_words

VOCABULARIES = ("joint-bpe", "bpe", "words", "given")
BLOCK_PAIRS = 10_000
# Below this, starting the worker processes costs more than they save.
PARALLEL_PAIRS = 100_000
# Settings with their least and greatest values. The tokenizer library allocates room for the whole
# vocabulary at once and aborts the process if memory does not suffice.
LIMITS = {
    "size": (8, 1_000_000),
    "min_count": (1, 10**9),
    "max_tokens": (1, 100_000),
    "max_ratio": (1, 1_000_000),
    "vocabulary_lines": (1, 10**9),
    "workers": (1, 256),
}

Files = dict[str, tuple[TextFile, TextFile]]  # split -> source, target
Progress = Callable[[str, int, int], None]  # task, done, total


@dataclass(frozen=True)
class Prepare:
    """Settings of `hmt prepare`; documented in docs/data.md."""

    source: Path
    target: Path
    valid_source: Path
    valid_target: Path
    output: Path
    test_source: Path | None = None
    test_target: Path | None = None
    vocabulary: str = "joint-bpe"
    size: int = 32_000
    min_count: int = 5
    lowercase: bool = False
    tokenised: bool = False
    source_tokenizer: Path | None = None
    target_tokenizer: Path | None = None
    max_tokens: int = 250
    max_ratio: float = 9.0
    vocabulary_lines: int = 2_000_000
    workers: int = field(default_factory=lambda: min(os.cpu_count() or 1, 8))

    def splits(self) -> dict[str, tuple[Path, Path]]:
        """Source and target file of each split that was given."""
        pairs = {
            "train": (self.source, self.target),
            "valid": (self.valid_source, self.valid_target),
            "test": (self.test_source, self.test_target),
        }
        return {name: (Path(s), Path(t)) for name, (s, t) in pairs.items() if s and t}


def prepare(settings: Prepare, progress: Progress = lambda task, done, total: None) -> Report:
    """Make the prepared directory `settings.output`, or reuse it if the settings are the same."""
    _check(settings)
    paths = list(chain.from_iterable(settings.splits().values()))
    scans = []
    with ThreadPoolExecutor(2) as pool:
        for scanned in pool.map(scan, paths):
            scans.append(scanned)
            progress("check", len(scans), len(paths))
    files = dict(zip(settings.splits(), zip(scans[::2], scans[1::2], strict=True), strict=True))
    for source, target in files.values():
        if source.lines != target.lines:
            raise UserError(
                f"{source.path} has {source.lines} lines but {target.path} has {target.lines}; "
                "line n of one must be the translation of line n of the other."
            )
    request = _request(settings, files)
    output = Path(settings.output).resolve()
    return _earlier_report(output, request) or _make(settings, files, request, output, progress)


def _make(
    settings: Prepare,
    files: Files,
    request: dict[str, Any],
    output: Path,
    progress: Progress,
) -> Report:
    """Fill a directory beside `output`, which takes its place once it is complete."""
    try:
        text = chain.from_iterable(files.values())
        with drafting(output, last=DATA_FILE) as draft, unchanged(text):
            learned = abandonable(partial(_make_tokenizers, settings, files["train"], progress))
            return _write(settings, files, request, learned, draft, progress)
    except OSError as error:
        raise UserError(
            f"{output} cannot be made ({error}); existing files were not changed."
        ) from error


def _check(settings: Prepare) -> None:
    if settings.vocabulary not in VOCABULARIES:
        raise UserError(
            f'Vocabulary "{settings.vocabulary}" is not known; give one of '
            f"{', '.join(VOCABULARIES)}."
        )
    if (settings.test_source is None) != (settings.test_target is None):
        raise UserError("Only one side of the test split was given; give both or none.")
    given = [settings.source_tokenizer, settings.target_tokenizer]
    if (settings.vocabulary == "given") != all(given) or (any(given) and not all(given)):
        raise UserError(
            "Tokenizer files go with the vocabulary given: give the source and the target "
            "tokenizer (the same file twice if they share one), or neither."
        )
    if settings.vocabulary == "given" and (settings.lowercase or settings.tokenised):
        raise UserError(
            "Lower-casing and tokenised text are properties of the given tokenizer file; "
            "leave these options out."
        )
    for name, (least, most) in LIMITS.items():
        if not least <= getattr(settings, name) <= most:
            raise UserError(
                f"{name} is {getattr(settings, name)}; it must be from {least:,} to {most:,}."
            )


def _request(settings: Prepare, files: Files) -> dict[str, Any]:
    """Everything that determines the result and nothing else (file names and locations do not)."""
    names = "vocabulary size min_count lowercase tokenised max_tokens max_ratio vocabulary_lines"
    inputs = {
        f"{split}.{side}": {"lines": file.lines, "sha256": file.sha256}
        for split, pair in files.items()
        for side, file in zip(SIDES, pair, strict=True)
    }
    for side, path in zip(SIDES, _given(settings), strict=False):
        inputs[f"{side}.tokenizer"] = {"sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
    return {"settings": {n: getattr(settings, n) for n in names.split()}, "inputs": inputs}


def _given(settings: Prepare) -> list[Path]:
    paths = [Path(p) for p in (settings.source_tokenizer, settings.target_tokenizer) if p]
    for path in paths:
        if not path.is_file():
            raise UserError(f"There is no tokenizer file {path}; check the name.")
    return paths


def _earlier_report(output: Path, request: dict[str, Any]) -> Report | None:
    """The stored report if the same request made `output`; an error if it holds anything else."""
    if not output.exists() or (output.is_dir() and not any(output.iterdir())):
        return None
    try:
        data = read_data(output)
        if all(getattr(data, name) == value for name, value in request.items()):
            for split in data.report.splits:
                Corpus.open(output, split)
            checked_digests(output, data.report.splits)
            return data.report
    except UserError:
        pass
    raise UserError(
        f"{output} already holds something else (other files, other settings, other text, or a "
        "damaged copy) and was left unchanged; name another output directory or remove it."
    )


def _write(
    settings: Prepare,
    files: Files,
    request: dict[str, Any],
    learned: tuple[Tokenizers, int],
    directory: Path,
    progress: Progress,
) -> Report:
    tokenizers, lines = learned
    for name, content in files_of(tokenizers).items():
        (directory / name).write_bytes(content)
    source_size, target_size = (tokenizer.size for tokenizer in tokenizers)
    dtype: Literal["uint16", "uint32"] = (
        "uint16" if max(source_size, target_size) < 1 << 16 else "uint32"
    )
    splits: dict[str, SplitReport] = {}
    for split, pair in files.items():
        splits[split] = _write_split(settings, split, pair, tokenizers, directory, dtype, progress)
        if splits[split].kept == 0:
            raise UserError(
                f"No pair of {pair[0].path} and {pair[1].path} is left: of {pair[0].lines}, "
                f"{splits[split].empty} are empty, {splits[split].too_long} too long and "
                f"{splits[split].ratio} too unequal; raise the limits or check the files."
            )
    report = Report(source_size, target_size, lines, splits)
    data = PreparedData(
        format=FORMAT,
        **request,
        dtype=dtype,
        report=report,
        files={split: [str(file.path) for file in pair] for split, pair in files.items()},
        versions={
            "python": platform.python_version(),
            **{name: _version(name) for name in ("hmt", "tokenizers", "numpy")},
        },
        digests={path.name: digest_of(path) for path in sorted(directory.iterdir())},
    )
    text = json.dumps(asdict(data), indent=2, ensure_ascii=False) + "\n"
    (directory / DATA_FILE).write_text(text, encoding="utf-8")
    return report


def _make_tokenizers(
    settings: Prepare, pair: tuple[TextFile, TextFile], progress: Progress
) -> tuple[Tokenizers, int]:
    """The tokenizers, and the number of lines they were learned from."""
    if settings.vocabulary == "given":
        paths = _given(settings)
        loaded = Tokenizer.load(paths[0])
        shared = paths[0].samefile(paths[1])
        return (loaded, loaded if shared else Tokenizer.load(paths[1])), 0
    counted = partial(progress, "vocabulary")
    total = min(2 * pair[0].lines, settings.vocabulary_lines)
    if settings.vocabulary == "joint-bpe":
        both = Sample(pair, total, counted)
        with _naming(*pair):
            joint = train_bpe(
                both, settings.size, lowercase=settings.lowercase, tokenised=settings.tokenised
            )
        return (joint, joint), both.lines

    def learn(file: TextFile) -> tuple[Tokenizer, int]:
        if settings.vocabulary == "words":
            # A frequency cut is about the whole text, so no line is left out.
            every = Sample((file,), file.lines, counted)
            return train_words(every, settings.min_count, lowercase=settings.lowercase), file.lines
        some = Sample((file,), min(file.lines, max(1, total // 2)), counted)
        return train_bpe(
            some, settings.size, lowercase=settings.lowercase, tokenised=settings.tokenised
        ), some.lines

    learned = []
    for file in pair:
        with _naming(file):
            learned.append(learn(file))
    (source, source_lines), (target, target_lines) = learned
    return (source, target), source_lines + target_lines


@contextmanager
def _naming(*files: TextFile) -> Iterator[None]:
    """Name the text when no vocabulary can be learned from it."""
    try:
        yield
    except UserError as error:
        names = " and ".join(str(file.path) for file in files)
        raise UserError(f"{names}: {error}") from None


def _write_split(
    settings: Prepare,
    split: str,
    pair: tuple[TextFile, TextFile],
    tokenizers: Tokenizers,
    directory: Path,
    dtype: str,
    progress: Progress,
) -> SplitReport:
    # Scores must cover the whole set: only training data may leave pairs out.
    limits = (settings.max_tokens, settings.max_ratio) if split == "train" else None
    workers = settings.workers if pair[0].lines >= PARALLEL_PAIRS else 1
    report = SplitReport()
    progress(split, 0, pair[0].lines)
    with ExitStack() as stack:
        writers = [stack.enter_context(SideWriter(directory, split, side, dtype)) for side in SIDES]
        for encoded in encode_all(_blocks(pair), Encoder(tokenizers, limits, dtype), workers):
            for writer, tokens, lengths in zip(
                writers, encoded.tokens, encoded.lengths, strict=True
            ):
                writer.add(tokens, lengths)
            report += encoded.report
            progress(split, report.pairs, pair[0].lines)
    return report


def _blocks(pair: tuple[TextFile, TextFile]) -> Iterator[Block]:
    with open_lines(pair[0].path) as sources, open_lines(pair[1].path) as targets:
        while block := b"".join(islice(sources, BLOCK_PAIRS)):
            yield Block(block, b"".join(islice(targets, BLOCK_PAIRS)))


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"
