"""`hmt serve` as a process of its own, as an operator starts it."""

import contextlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from live_server import small_model
from model_directories import save

from hmt.text.tokenizer import Tokenizer


def save_small_model(folder: Path) -> Path:
    """A model directory to serve."""
    model = small_model()
    assert isinstance(model.source_tokenizer, Tokenizer)
    return save(folder, model.system, model.source_tokenizer, knobs={"threshold": 0.4})


class Process:
    """A server as an operator starts it."""

    def __init__(self, folder: Path, port: int = 0, *options: str) -> None:
        command = [sys.executable, "-m", "hmt", "serve", f"xx-yy={folder}", "--port", str(port)]
        command += ["--delay-ms", "1000000", "--drain-seconds", "30"]
        command += ["--engine", "process"] if sys.platform == "linux" else []
        command += options
        self.popen = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        self.said = ""
        assert self.popen.stderr is not None
        for line in self.popen.stderr:
            self.said += line
            if found := re.search(r"http://127.0.0.1:(\d+)/", line):
                self.port = int(found[1])
                return
        self.popen.wait()

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/v1/realtime/translations"


@contextlib.contextmanager
def process(folder: Path, port: int = 0, *options: str) -> Iterator[Process]:
    running = Process(folder, port, *options)
    try:
        yield running
    finally:
        running.popen.kill()
        running.popen.wait()
        assert running.popen.stderr is not None
        running.popen.stderr.close()
