"""The model directory: config.json, model.safetensors, tokenizer file(s), README.md. No pickle.

Every file is written beside its old version and put in its place in one step, the configuration
last, so that a directory is usable at any instant.
"""

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save

from hmt.errors import UserError
from hmt.files import write_atomically
from hmt.systems import SYSTEMS, build, system_named
from hmt.systems.contract import System

FORMAT = 1
WEIGHTS, CONFIG = "model.safetensors", "config.json"
TOKENIZER_FILES = ("tokenizer.json", "source.tokenizer.json", "target.tokenizer.json")


def describe(system: System, facts: dict[str, Any]) -> dict[str, Any]:
    """What config.json says of a system; `facts` is how it came about (training, import)."""
    return {
        "format": FORMAT,
        "system": system.name,
        "config": dataclasses.asdict(system.config),
        "knobs": dataclasses.asdict(system.knobs()),
        "facts": facts,
    }


def save_system(
    directory: Path, system: System, facts: dict[str, Any], dtype: torch.dtype | None = None
) -> None:
    """Write weights (in half precision if asked) and configuration."""
    directory.mkdir(parents=True, exist_ok=True)
    tensors = {}
    for name, tensor in unshared(system).items():
        tensors[name] = tensor.detach().to("cpu", dtype or tensor.dtype).contiguous()
    write_atomically(directory / WEIGHTS, save(tensors))
    text = json.dumps(describe(system, facts), indent=1, ensure_ascii=False) + "\n"
    write_atomically(directory / CONFIG, text.encode())


def unshared(system: System) -> dict[str, torch.Tensor]:
    """State dict in which a tensor that has several names (tied embeddings) appears once."""
    seen: set[int] = set()
    kept = {}
    for name, tensor in system.state_dict(keep_vars=True).items():
        if id(tensor) not in seen:
            seen.add(id(tensor))
            kept[name] = tensor
    return kept


def load_system(directory: Path) -> tuple[System, dict[str, Any]]:
    """A system in single precision and the content of its config.json."""
    config = read_config(directory)
    system = build(config["system"], config["config"])
    try:
        tensors = load_file(directory / WEIGHTS)
    except (OSError, SafetensorError) as error:
        raise UserError(f"{directory / WEIGHTS} cannot be read as weights: {error}.") from None
    fill(system, tensors, str(directory))
    return system, config


def compose_system(name: str, directories: Sequence[Path]) -> System:
    """A system made of the models in other directories; it has copies of their weights."""
    return system_named(name).compose([load_system(directory)[0] for directory in directories])


def fill(system: System, tensors: dict[str, torch.Tensor], where: str) -> None:
    """Give a system all its weights; names or shapes that do not fit are an error."""
    wanted = unshared(system)
    missing, extra = wanted.keys() - tensors.keys(), tensors.keys() - wanted.keys()
    if missing or extra:
        name = sorted(missing or extra)[0]
        what = "lacks" if missing else "has an unknown"
        raise UserError(f"{where}: the weights do not fit the configuration: it {what} {name}.")
    for name, tensor in tensors.items():
        if tensor.shape != wanted[name].shape:
            raise UserError(
                f"{where}: the weights do not fit the configuration: {name} is "
                f"{tuple(tensor.shape)}, not {tuple(wanted[name].shape)}."
            )
    with torch.no_grad():
        for name, tensor in tensors.items():
            wanted[name].copy_(tensor)


def read_config(directory: Path) -> dict[str, Any]:
    """config.json, checked as far as needed to build from it."""
    path = directory / CONFIG
    if not path.is_file():
        raise UserError(f"{directory} is not a model directory: it has no {CONFIG}.")
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
        system, version = config["system"], config["format"]
        config["config"].keys(), config.get("knobs", {}).keys()
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{path} is damaged or not of this program ({error!r}).") from None
    if version != FORMAT:
        raise UserError(f"{path} has format {version}; this version reads format {FORMAT}.")
    if system not in SYSTEMS:
        raise UserError(f'{path} names the system "{system}"; known are {", ".join(SYSTEMS)}.')
    return dict(config)


def tokenizer_files(directory: Path) -> dict[str, bytes]:
    """Tokenizer files of a prepared directory or a model directory, by name."""
    found = {n: directory / n for n in TOKENIZER_FILES if (directory / n).is_file()}
    return {name: path.read_bytes() for name, path in found.items()}
