"""Files and directories that appear in one step: after a crash there is the old one or the new."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hmt.errors import UserError


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a path to write to, which becomes `path` when the block succeeds."""
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
    """Replace a file in one step, unless its content is the same already."""
    if not (path.is_file() and path.read_bytes() == content):
        with replacing(path) as temporary:
            temporary.write_bytes(content)


def link(path: Path, existing: Path) -> None:
    """Make `path` the same file as `existing`; a copy where the file system has no links."""
    with replacing(path) as temporary:
        try:
            temporary.hardlink_to(existing)
        except OSError:
            shutil.copyfile(existing, temporary)


def refuse_occupied(directory: Path) -> None:
    """Refuse a directory that holds anything, for the user's work is never overwritten."""
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise UserError(
            f"{directory} already exists and is not an empty directory; name a new one."
        )


@contextmanager
def drafting(directory: Path, last: str) -> Iterator[Path]:
    """Yield an empty directory, which becomes `directory` when the block succeeds.

    An empty directory is filled instead of replaced, as the user may be working in it; the file
    `last`, without which it is not complete, then comes last.
    """
    refuse_occupied(directory)
    parent = directory.resolve().parent
    parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{directory.name}.", dir=parent))
    try:
        # a temporary directory is its owner's alone; this one is as public as where it stands
        draft.chmod(parent.stat().st_mode & 0o777)
        yield draft
        refuse_occupied(directory)  # somebody may have filled it meanwhile
        if directory.exists():
            for file in sorted(draft.iterdir(), key=lambda file: file.name == last):
                file.replace(directory / file.name)
            draft.rmdir()
        else:
            draft.replace(directory)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
