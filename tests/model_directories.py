"""Model directories of systems that no run has trained."""

from pathlib import Path
from typing import Any

from hmt.models.directory import Card, describe, write_model
from hmt.systems.contract import System
from hmt.text.language_pair import files_of
from hmt.text.tokenizer import Tokenizer


def save(folder: Path, system: System, tokenizer: Tokenizer | None = None, **more: Any) -> Path:
    """Write a model directory; `more` are fields of its configuration."""
    files = files_of((tokenizer, tokenizer)) if tokenizer is not None else {}
    write_model(folder, system, describe(system, **more), files, Card(folder, "random"))
    return folder
