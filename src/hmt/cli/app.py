"""The application: its commands by name, and how mistakes, interrupts and closed pipes end it."""

import logging
import os
import signal
import sys
from typing import Any

import typer
from typer.core import TyperGroup

from hmt import __version__
from hmt.errors import UserError

# In the order in which work with the program goes.
ORDER = (
    *("demo", "translate", "prepare", "train", "average", "info", "convert"),
    *("evaluate", "compare", "plot", "explain", "score", "audit", "bench", "serve"),
)


class Commands(TyperGroup):
    """The commands in their order, whatever the order of imports."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Those that are named first, in their order; then any other."""
        names = super().list_commands(ctx)
        return sorted(names, key=lambda name: ORDER.index(name) if name in ORDER else len(ORDER))


app = typer.Typer(
    name="hmt",
    cls=Commands,
    help="Simultaneous machine translation: train, measure, and translate while words arrive.",
    add_completion=False,
    # boxes are for eyes; a pipe or a log file gets plain text
    rich_markup_mode="rich" if sys.stdout.isatty() else None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"hmt {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(
        False, "--version", callback=_show_version, is_eager=True, help="Show the version."
    ),
    quiet: bool = typer.Option(False, "--quiet", "-q", help="Report warnings and errors only."),
) -> None:
    level = logging.WARNING if quiet else logging.INFO
    logging.basicConfig(level=level, format="%(message)s", handlers=[_Stderr()], force=True)


class _Stderr(logging.Handler):
    """Looks stderr up anew for each line, because a progress bar puts itself in its place."""

    def emit(self, record: logging.LogRecord) -> None:
        print(self.format(record), file=sys.stderr)  # noqa: T201


def main() -> None:
    """Run one command. Exit 2 with one sentence for a user's mistake; other exceptions are bugs."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command and give its exit code."""
    try:
        code = app(arguments or ["--help"], prog_name="hmt", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except UserError as error:
        return _complain(str(error))
    except typer.TyperException as error:
        return _complain(_usage(error))
    except (KeyboardInterrupt, typer.Abort):
        return 128 + signal.SIGINT
    except BrokenPipeError:
        # whoever read our output has left; what is still buffered must not complain at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except OSError as error:
        # a file that cannot be read or written is the user's to mend; any other is a bug
        if error.filename is None or error.strerror is None:
            raise
        return _complain(f"{error.filename}: {error.strerror}.")


def _complain(sentence: str) -> int:
    print(f"hmt: {' '.join(sentence.split())}", file=sys.stderr)  # noqa: T201
    return 2


def _usage(error: typer.TyperException) -> str:
    """One sentence with the command whose help tells more."""
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "hmt"
    return f"{error.format_message().rstrip('.')}; see `{command} --help`."
