"""Files that are replaced in one step: after a crash there is the old one or the new one."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hmt.errors import UserError


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path to write to, which becomes `path` when the block ends well."""
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        # what a killed run left here may be a link to a snapshot, which must not be written through
        temporary.unlink(missing_ok=True)
        yield temporary
        # safetensors makes files for their owner alone; a model is as public as its directory
        temporary.chmod(path.parent.stat().st_mode & 0o666)
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        temporary.replace(path)
        _sync_directory(path.parent)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise UserError(
            f"{path} cannot be written ({error.strerror}); what was there before is unharmed."
        ) from error


def _sync_directory(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file in one step: after a crash it is the old one or the new one."""
    with replacing(path) as temporary:
        temporary.write_bytes(content)
