"""The application, and how it ends: mistakes, interrupts, closed pipes and full disks."""

import errno
import logging
import os
import re
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from hmt import __version__
from hmt.errors import UserError, is_out_of_memory

# Errors of writing that are the fault of the destination, not of the program.
UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF, errno.EROFS)


class Commands(TyperGroup):
    """The commands in the order of hmt.cli.COMMANDS; typer would put groups last."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Names in the order of the help."""
        from hmt.cli import COMMANDS

        return sorted(super().list_commands(ctx), key=COMMANDS.index)


app = typer.Typer(
    name="hmt",
    cls=Commands,
    help="Simultaneous machine translation: train, measure, and translate while words arrive.",
    epilog="Try `hmt demo` first. `hmt COMMAND --help` is the manual of a command.",
    add_completion=False,
    # boxes are for terminals; a pipe or a log file gets plain text
    rich_markup_mode="rich" if sys.stdout is not None and sys.stdout.isatty() else None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"hmt {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(
        False, "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
    ),
    quiet: bool = typer.Option(False, "--quiet", "-q", help="Show only warnings and errors."),
) -> None:
    level = logging.WARNING if quiet else logging.INFO
    logging.basicConfig(level=level, format="%(message)s", handlers=[_Stderr()], force=True)


class _Stderr(logging.Handler):
    """Looks up stderr for each line, because a progress bar replaces it while it is shown."""

    def emit(self, record: logging.LogRecord) -> None:
        # a log that cannot be shown, as on a full disk, must not end a training of days
        with suppress(OSError):
            print(self.format(record), file=sys.stderr)  # noqa: T201


def main() -> None:
    """Run the command that the command line names, and exit with its code."""
    if sys.stderr is None:  # closed: print() would use stdout instead
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115
    code = run(sys.argv[1:])
    # nothing is left to do from here on, so an interrupt should be silent
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """Run one command. -> exit code; 2 with one sentence for a user's mistake"""
    try:
        _check(arguments)
        return _invoke(arguments or ["--help"])
    except UserError as error:
        return _complain(str(error))
    except typer.TyperException as error:
        return _complain(_usage(error))
    except (KeyboardInterrupt, typer.Abort):
        return 128 + signal.SIGINT
    except BrokenPipeError:
        _discard_output()
        return 128 + signal.SIGPIPE
    except OSError as error:
        return _complain(_system_error(error))
    except (MemoryError, RuntimeError, ImportError) as error:
        return _complain(_memory_error(error))
    except ValueError as error:
        return _complain(_value_error(error))


def _check(arguments: list[str]) -> None:
    """Refuse arguments that could be neither opened nor shown."""
    if sys.stdout is None:
        raise UserError("Standard output is closed; send it to a file or to /dev/null instead.")
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError:
            raise UserError(
                f"The argument {argument!a} is not valid UTF-8; type it again or rename the file."
            ) from None
        if "\0" in argument:
            raise UserError(f"The argument {argument!a} contains a NUL byte; leave it out.")


def _invoke(arguments: list[str]) -> int:
    """Run a command without typer's own ending, which exits with 1 when a pipe is closed."""
    command = get_command(app)
    try:
        with command.make_context("hmt", arguments) as context:
            code = command.invoke(context)
    except typer.Exit as exited:
        code = exited.exit_code
    sys.stdout.flush()
    return code if isinstance(code, int) else 0


def _discard_output() -> None:
    """Discard what is still buffered; at exit, writing it would fail again with a message."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _system_error(error: OSError) -> str:
    """The message for a failing file or output; any other error is a bug and is raised."""
    if error.filename is not None and error.strerror is not None:
        return f"{error.filename}: {error.strerror}."
    if error.errno not in UNWRITABLE:
        raise error
    _discard_output()
    return f"The output cannot be written: {error.strerror}."


def _memory_error(error: MemoryError | RuntimeError | ImportError) -> str:
    """The message when memory runs out, also while torch is loading; any other error is a bug."""
    if isinstance(error, ImportError) and "failed to map segment" in str(error):
        return "There is not enough memory to load torch; raise the limit (`ulimit -v`)."
    if not is_out_of_memory(error):
        raise error
    return "Memory ran out; free some, raise the limit (`ulimit -v`) or request less at once."


def _value_error(error: ValueError) -> str:
    """The message for two mistakes that Python finds late; any other error is a bug, and raised."""
    if isinstance(error, UnicodeEncodeError) and error.encoding != "utf-8":
        return f"The output has characters that {error.encoding} lacks; set PYTHONIOENCODING=utf-8."
    if "embedded null" in str(error):  # in a recipe: no command line can hold one
        return "A path contains a NUL byte, which no file name can; correct it."
    if isinstance(error, UnicodeEncodeError):
        return "The output has a name or text that is not valid Unicode; rename or correct it."
    raise error


def _complain(sentence: str) -> int:
    """Write one line to stderr, with overlong names cut. -> exit code"""
    line = re.sub(r"([^\s:]{100})[^\s:]{200,}", r"\1...", " ".join(sentence.split()))
    with suppress(OSError):
        print(f"hmt: {line}", file=sys.stderr)  # noqa: T201
    return 2


def _usage(error: typer.TyperException) -> str:
    """One sentence, naming the command whose help explains more."""
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "hmt"
    message = error.format_message().rstrip(".")
    if "extra argument" in message:
        message += "; text with spaces needs quotation marks"
    return f"{message}{' See' if message.endswith('?') else '; see'} `{command} --help`."
