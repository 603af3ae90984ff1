"""`records.jsonl`: what the translations of one setting did, one JSON object per line."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from hmt.errors import UserError
from hmt.files import read_text, write_atomically
from hmt.streaming.record import Record

RECORDS = "records.jsonl"


def read_records(path: str | Path) -> list[Record]:
    """All records of a file, or of the one in a folder; errors name the line."""
    path, records = Path(path), []
    for place, line in numbered_lines(path / RECORDS if path.is_dir() else path):
        try:
            records.append(Record.from_json(line))
        except UserError as error:
            raise UserError(f"{place}: {error}") from None
    return records


def write_records(path: str | Path, records: Iterable[Record]) -> None:
    """Write records, one JSON object per line."""
    write_atomically(Path(path), "".join(record.to_json() + "\n" for record in records))


def numbered_lines(path: str | Path) -> Iterator[tuple[str, str]]:
    """The non-empty lines of a JSON-lines file, each with its place, as in "file, line 3"."""
    # Only newlines end a line: JSON text may hold U+2028, at which splitlines() would cut.
    for number, line in enumerate(read_text(Path(path)).split("\n"), 1):
        if line.strip():
            yield f"{path}, line {number}", line
