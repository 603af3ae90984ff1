"""Plain or gzip text files of one sentence per line, checked before they are used."""

import codecs
import gzip
import hashlib
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from hmt.errors import UserError
from hmt.files import refuse_special
from hmt.limits import MAX_LINE_BYTES, MOST_INFLATION

BLOCK = 1 << 19  # bytes read at a time; a line that fits one is not too long
ENOUGH = 1 << 30  # bytes up to which any text may decompress


@dataclass(frozen=True)
class TextFile:
    """One checked side of a split."""

    path: Path
    lines: int
    sha256: str
    stamp: tuple[int, ...]  # changes when the file is written to


def scan(path: Path) -> TextFile:
    """Read a whole file once: count its lines, compute its checksum, check that it is text."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    digest = hashlib.sha256()
    lines, last, size, begun = 0, b"\n", 0, 0
    try:
        stamp = _stamp(path)
        with open_lines(path) as file:
            while block := file.read(BLOCK):
                digest.update(block)
                decoder.decode(block)
                begun = _check_line(path, lines + 1, begun, block)
                lines += block.count(b"\n")
                last = block
                size += len(block)
                _check_inflation(path, size)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        line = lines + error.object[: error.start].count(b"\n") + 1
        raise UserError(
            f"{path}, line {line}: not UTF-8 text (byte 0x{error.object[error.start]:02x}); "
            "convert the file to UTF-8 first."
        ) from error
    except (OSError, EOFError, zlib.error) as error:
        if not path.is_file():
            raise UserError(f"There is no text file {path}; check the name.") from error
        raise UserError(f"{path}, line {lines + 1}: cannot be read ({error}).") from error
    lines += not last.endswith(b"\n")
    if lines == 0:
        raise UserError(f"{path} is empty; it must hold one sentence per line.")
    return TextFile(path, lines, digest.hexdigest(), stamp)


def _stamp(path: Path) -> tuple[int, ...]:
    found = path.stat()
    return found.st_ino, found.st_size, found.st_mtime_ns


@contextmanager
def unchanged(files: Iterable[TextFile]) -> Iterator[None]:
    """Refuse files that are changed while they are used, however the work ended."""
    files = list(files)
    try:
        yield
    except Exception:  # half a line, or half a character, can make anything fail
        _refuse_changed(files)
        raise
    _refuse_changed(files)


def _refuse_changed(files: Iterable[TextFile]) -> None:
    for file in files:
        try:
            is_same = _stamp(file.path) == file.stamp
        except OSError:
            is_same = False
        if not is_same:
            raise UserError(
                f"{file.path} was changed while it was being read; repeat the command when it is "
                "complete."
            )


def _check_line(path: Path, number: int, begun: int, block: bytes) -> int:
    """Refuse an endless line; `begun` is its size before this block. -> the last line's after it"""
    first = block.find(b"\n")
    if begun + (len(block) if first < 0 else first) > MAX_LINE_BYTES:
        raise UserError(
            f"{path}, line {number}: longer than {MAX_LINE_BYTES:,} bytes; give one sentence per "
            "line."
        )
    return begun + len(block) if first < 0 else len(block) - 1 - block.rfind(b"\n")


def _check_inflation(path: Path, size: int) -> None:
    """Refuse a small file that decompresses to an enormous one."""
    if size > ENOUGH and size > MOST_INFLATION * path.stat().st_size:
        raise UserError(
            f"{path} decompresses to more than {MOST_INFLATION} times its size, as no text does; "
            "decompress it yourself if you trust its origin."
        )


def open_lines(path: Path) -> IO[bytes]:
    """Open a plain or gzip file, recognised by its first bytes, past its byte order mark."""
    refuse_special(path)  # a pipe can be read only once, but the text is read twice
    with path.open("rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
    opener = gzip.open if zipped else open
    lines = cast(IO[bytes], opener(path, "rb"))
    try:
        if lines.read(3) != codecs.BOM_UTF8:
            lines.seek(0)
    except BaseException:
        lines.close()
        raise
    return lines


class Sample:
    """About `lines` lines spread evenly over files of equal length; the same every time."""

    def __init__(
        self, files: Iterable[TextFile], lines: int, progress: Callable[[int, int], None]
    ) -> None:
        self._files = list(files)
        self._each = max(1, lines // len(self._files))
        self.lines = sum(min(self._each, file.lines) for file in self._files)
        self._progress = progress

    def __iter__(self) -> Iterator[str]:
        done = 0
        for file in self._files:
            each = min(self._each, file.lines)
            with open_lines(file.path) as lines:
                for n, line in enumerate(lines):
                    if (n + 1) * each // file.lines > n * each // file.lines:
                        yield line.decode("utf-8")
                        done += 1
                        if done % 10_000 == 0 or done == self.lines:
                            self._progress(done, self.lines)
