"""Files and directories that appear in one step: after a crash there is the old one or the new.

Nothing is written through a symbolic link, nothing blocks on a file that is not regular, and what a
killed process left half-written is removed by the next one that writes the same name.
"""

import errno
import fcntl
import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from hmt.errors import UserError

RANDOM = r"[a-z0-9_]{8}"  # the unique part of a temporary name


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a path to write to, which becomes `path` when the block succeeds."""
    try:
        _sweep(path, rf"({RANDOM}\.)?tmp")
        with _claimed(lambda: _new_file(path)) as temporary:
            try:
                mode = _own_mode(path) or stat.S_IMODE(temporary.stat().st_mode)
                yield temporary
                temporary.chmod(mode)  # safetensors makes files for their owner alone
                _sync(temporary)
                temporary.replace(path)
                _sync(path.parent)
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise
    except OSError as error:
        raise UserError(
            f"{path} cannot be written ({error.strerror or error}); the previous version is "
            "unharmed."
        ) from error


def _own_mode(path: Path) -> int | None:
    """The permissions of an existing file, which its replacement keeps."""
    is_there = path.is_file() and not path.is_symlink()
    return path.stat().st_mode & 0o777 if is_there else None


def _new_file(path: Path) -> Path:
    """An empty file beside `path`: private if `path` exists, otherwise as the umask says."""
    mode = _own_mode(path)
    while True:
        made = _unused(path, "tmp")
        with suppress(FileExistsError):
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
            os.close(os.open(made, flags, 0o666 if mode is None else 0o600))
            return made


def _unused(path: Path, ending: str) -> Path:
    return path.parent / f".{path.name}.{secrets.token_hex(4)}.{ending}"


@contextmanager
def _claimed(make: Callable[[], Path]) -> Iterator[Path]:
    """Yield what `make` makes, locked, so that no other process sweeps it away."""
    while True:
        made = make()
        with suppress(FileNotFoundError):  # swept between the two calls
            handle = os.open(made, os.O_RDONLY)
            with suppress(OSError):  # a file system without locks has no sweeping either
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(handle).st_nlink > 0:
                break
            os.close(handle)
    try:
        yield made
    finally:
        os.close(handle)


def _sweep(path: Path, ending: str) -> None:
    """Remove what killed processes left beside `path`: unlocked names with this ending."""
    pattern = re.compile(re.escape(f".{path.name}.") + ending)
    for found in path.parent.iterdir():
        if not pattern.fullmatch(found.name):
            continue
        with suppress(OSError):
            handle = os.open(found, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if found.is_dir():
                    shutil.rmtree(found, ignore_errors=True)
                else:
                    found.unlink()
            finally:
                os.close(handle)


def _sync(path: Path) -> None:
    """Force a file or a directory to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_atomically(path: Path, content: str | bytes) -> None:
    """Replace a file in one step, unless it already has this content.

    What UTF-8 cannot express (half of a surrogate pair) becomes a question mark.
    """
    data = content.encode("utf-8", "replace") if isinstance(content, str) else content
    is_plain = path.is_file() and not path.is_symlink()
    if not (is_plain and path.read_bytes() == data):
        with replacing(path) as temporary:
            temporary.write_bytes(data)


def link(path: Path, existing: Path) -> None:
    """Make `path` the same file as `existing`; a copy where the file system has no links."""
    if path.exists() and path.samefile(existing) and not path.is_symlink():
        return  # renaming one name of a file to another does nothing, and both would stay
    with replacing(path) as temporary:
        try:
            temporary.unlink()
            temporary.hardlink_to(existing)
        except OSError:
            shutil.copyfile(existing, temporary)


def refuse_special(path: Path) -> None:
    """Refuse anything but a regular file, if it exists: opening a named pipe would block."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return  # the caller that opens it reports that
    if not stat.S_ISREG(mode):
        kind = "directory" if stat.S_ISDIR(mode) else "pipe or device"
        raise UserError(f"{path} is a {kind}, not a file; name or put a regular file there.")


def read_text(path: Path) -> str:
    """The text of a UTF-8 file, without its byte order mark; anything else is refused."""
    refuse_special(path)
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}); check its name.") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 text ({error.reason}); convert it first.") from None


def open_own(path: Path, flags: int = 0) -> int:
    """A descriptor to read and write a file of ours, created if missing; never through a link.

    Through a link put there by someone else, we would overwrite another file.
    """
    flags |= os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        handle = os.open(path, flags, 0o666)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise UserError(
                f"{path} is a symbolic link, which is not followed; remove it."
            ) from None
        raise UserError(
            f"{path} cannot be opened ({error.strerror}); check its permissions."
        ) from error
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise UserError(f"{path} is a pipe or a device, not a file; remove it.")
    return handle


def append(handle: int, line: str, path: Path) -> None:
    """Append a line to one of our open files, unbuffered; `path` is its name."""
    data = f"{line}\n".encode("utf-8", "replace")
    try:
        if os.write(handle, data) < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    except OSError as error:
        raise UserError(
            f"{path} cannot be written ({error.strerror}); what was saved before is kept: make "
            "room and repeat the command to continue."
        ) from error


@contextmanager
def locked(path: Path, busy: str, *, waits: bool = False) -> Iterator[None]:
    """Hold a lock file, which is released however the process ends.

    If another process holds it, wait, or raise the message `busy` with the number of the {process}.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with os.fdopen(open_own(path), "r+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
        except BlockingIOError:
            process = file.read(20).strip()
            raise UserError(
                busy.format(process=process if process.isdigit() else "unknown")
            ) from None
        except OSError as error:
            raise UserError(
                f"{path} cannot be locked ({error.strerror}); use another file system."
            ) from error
        with suppress(OSError):  # a full disk: the number is for display only
            os.ftruncate(file.fileno(), 0)
            os.pwrite(file.fileno(), f"{os.getpid()}\n".encode(), 0)
        yield


def refuse_occupied(directory: Path) -> None:
    """Refuse a directory that is not empty: the user's work is never overwritten."""
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
    directory = directory.resolve()
    directory.parent.mkdir(parents=True, exist_ok=True)
    _sweep(directory, rf"{RANDOM}\.draft")
    with _claimed(lambda: _new_directory(directory)) as draft:
        try:
            yield draft
            for file in draft.iterdir():
                _sync(file)
            refuse_occupied(directory)  # it may have been filled meanwhile
            if directory.exists():
                for file in sorted(draft.iterdir(), key=lambda file: file.name == last):
                    file.replace(directory / file.name)
                draft.rmdir()
            else:
                draft.replace(directory)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise


def _new_directory(directory: Path) -> Path:
    while True:
        made = _unused(directory, "draft")
        with suppress(FileExistsError):
            made.mkdir()
            return made
