"""Files of records, one JSON object per line."""

from collections.abc import Iterable
from pathlib import Path

from hmt.errors import UserError
from hmt.streaming.record import Record, numbered_lines


def read_records(path: str | Path) -> list[Record]:
    """All records of a file; a wrong line is named by its number."""
    records = []
    for place, line in numbered_lines(path):
        try:
            records.append(Record.from_json(line))
        except UserError as error:
            raise UserError(f"{place}: {error}") from None
    return records


def write_records(path: str | Path, records: Iterable[Record]) -> None:
    """Write records, one JSON object per line."""
    with Path(path).open("w", encoding="utf-8") as file:
        file.writelines(record.to_json() + "\n" for record in records)
