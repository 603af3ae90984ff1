"""`hmt serve`: live translation over WebSocket, with a page, rooms and captions."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from hmt.cli._app import app
from hmt.cli._model import DEVICE, INT8, TRUST, open_model
from hmt.errors import UserError

if TYPE_CHECKING:
    from hmt.server.service import Offer

MODELS_HELP = (
    "Models as [NAME=]MODEL, each a directory or hf:USER/NAME[@REVISION]. "
    "Default: the German-English model that ships with hmt, as de-en."
)
MODELS = typer.Argument(None, metavar="[MODEL]...", help=MODELS_HELP)
LANGUAGES = typer.Option(None, help="Source and target, as de:en, where a model names none.")
TOKENS = typer.Option(None, help="File of required tokens: lines of name, SHA-256, scopes.")
HOSTS = typer.Option([], help="Host names under which this server may be reached.")
ORIGINS = typer.Option([], help="Origins of other web pages that may use this server.")
READERS = typer.Option(100, min=1, max=100_000, help="Readers of rooms from one address.")
DELAY = typer.Option(250, min=1, max=3_600_000, help="p95 delay above which no session is opened.")
WORDS = typer.Option(20, min=1, max=10_000, help="Words per second of one session.")
IDLE = typer.Option(600, min=1, max=31_536_000, help="Silence after which a session ends.")
ENGINE_HELP = (
    "Where the engine runs: a process of its own, a thread beside the connections, or auto: "
    "a process where there are two cores."
)
ENGINE = typer.Option("auto", help=ENGINE_HELP)
THREADS = typer.Option(0, min=0, max=1024, help="Cores of the engine; 0: all but one.")
GATHER = typer.Option(0.0, min=0, max=10_000, help="Pause before a round when many are live.")
LOG_TEXT = typer.Option(False, "--log-text", help="Log source and translation.")
DRAIN = typer.Option(20.0, min=0, max=86_400, help="Time for open sentences on SIGTERM.")


OTHERS_HELP = (
    "Another limit, such as rooms=500: burst_messages 1000, burst_words 400, body_bytes 65536, "
    "listeners 2000, message_bytes 16384, messages_per_second 100, pending_bytes 65536, "
    "queue_words 2000, resume_seconds 120, room_seconds 600, rooms 200, sentence_tokens 256, "
    "session_seconds 21600, sockets 5000, stall_seconds 30, translate_characters 5000, "
    "translate_per_minute 60, word_characters 256, words_per_message 200."
)
OTHERS = typer.Option([], metavar="NAME=NUMBER", help=OTHERS_HELP)


@app.command()
def serve(
    models: list[str] = MODELS,
    host: str = typer.Option("127.0.0.1", help="Address to bind; loopback is this machine only."),
    port: int = typer.Option(8765, min=0, max=65535, help="Port; 0 picks a free one."),
    languages: str | None = LANGUAGES,
    token_file: Path | None = TOKENS,
    is_open: bool = typer.Option(False, "--open", help="Serve other machines without tokens."),
    allow_origin: list[str] = ORIGINS,
    allow_host: list[str] = HOSTS,
    frame_ancestors: str = typer.Option("'none'", help="Who may embed the captions view."),
    captions: Path | None = typer.Option(None, help="Folder for the captions of rooms."),
    name: str = typer.Option("a1", help="Name of this process; part of every session's id."),
    places: int = typer.Option(300, min=1, max=100_000, help="Live sessions at once."),
    per_address: int = typer.Option(20, min=1, max=100_000, help="Live sessions from one address."),
    listeners_per_address: int = READERS,
    delay_ms: int = DELAY,
    words_per_second: int = WORDS,
    idle_seconds: int = IDLE,
    gather_ms: float = GATHER,
    drain_seconds: float = DRAIN,
    limit: list[str] = OTHERS,
    log_text: bool = LOG_TEXT,
    engine: str = ENGINE,
    threads: int = THREADS,
    device: str = DEVICE,
    trust: bool = TRUST,
    int8: bool = INT8,
) -> None:
    """Serve live translation: a page, rooms, and APIs.

    \b
    Examples:
      hmt serve
      hmt serve talks=models/talks --languages de:en --host 0.0.0.0 --token-file tokens
    """
    _check_extra()
    from hmt.server.running import cores, run
    from hmt.server.settings import Limits, Settings

    limits = Limits(places, delay_ms, per_address=per_address, idle_seconds=idle_seconds)
    limits = replace(limits, listeners_per_address=listeners_per_address)
    limits = replace(limits, words_per_second=words_per_second).changed(limit)
    settings = Settings(
        host=host,
        port=port,
        limits=limits,
        name=name,
        token_file=token_file,
        is_open=is_open,
        origins=tuple(allow_origin),
        hosts=tuple(allow_host),
        frame_ancestors=frame_ancestors,
        captions=captions,
        gather_ms=gather_ms,
        drain_seconds=drain_seconds,
        logs_text=log_text,
        engine=engine,
        threads=threads or max(1, cores() - 1),
    )
    run(settings, _offers(models or [""], _pair(languages), device, int8, trust))


def _check_extra() -> None:
    try:
        import hmt.server.running  # noqa: F401
    except ModuleNotFoundError as error:  # any other ImportError is a lack of memory
        raise UserError(
            f"{error.name} is not installed; install what serving needs: pip install hmt[serve]."
        ) from None


def _pair(text: str | None) -> tuple[str, str] | None:
    if text is None:
        return None
    source, colon, target = text.partition(":")
    if not (source and colon and target):
        raise UserError(f"--languages was given as {text!r}; name both, as in de:en.")
    return source, target


def _offers(
    texts: list[str], pair: tuple[str, str] | None, device: str, int8: bool, trust: bool
) -> list["Offer"]:
    import torch

    torch.set_num_threads(1)  # a process that has computed with several cannot be forked
    return [_offer(text, pair, device, int8, trust) for text in texts]


def _offer(
    text: str, pair: tuple[str, str] | None, device: str, int8: bool, trust: bool
) -> "Offer":
    """A model from `[NAME=]MODEL`; the one that ships if nothing is named."""
    from hmt.server.service import Offer

    name, _, path = text.rpartition("=")
    model = open_model(path or None, device, int8, trust)
    source, target = model.config.languages or pair or ("source", "target")
    return Offer(name or f"{source}-{target}", model, source, target)
