"""The model directory: config.json, model.safetensors, tokenizer file(s), README.md. No pickle.

A segmenter.safetensors, where there is one, finds the sentences of text without punctuation.

This file alone knows what such a directory holds.  Each file is written beside its old version and
replaces it in one step, the configuration last, so that a directory is usable at any instant.
"""

import json
import math
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hmt.errors import UserError
from hmt.files import link, write_atomically
from hmt.limits import DIMS
from hmt.model.dims import Dims
from hmt.model.segmenter import Segmenter
from hmt.models.outline import outline, unallocated
from hmt.models.weights import (
    check_fit,
    count_parameters,
    fill,
    read_weights,
    shapes_of,
    unshared,
    write_weights,
)
from hmt.plain import from_plain, json_object, shortened, to_plain
from hmt.systems import build, is_foreign, system_named
from hmt.systems.contract import System
from hmt.systems.parameters import ConfigT, KnobsT, MemoryT

FORMAT = 1
WEIGHTS, CONFIG, CARD_FILE = "model.safetensors", "config.json", "README.md"
SEGMENTER = "segmenter.safetensors"
LANGUAGE = re.compile(r"[a-z]{2,3}(-[A-Za-z0-9]{2,8})*")  # as in BCP 47: de, zh-Hant, pt-BR

CARD = """\
# {name}

A model of the system *{system}* for simultaneous translation{languages}, made with `hmt`:
{parameters:,} parameters, {source:,} source and {target:,} target symbols.

- weights: {weights}
- inference settings unless others are chosen: `{knobs}`
{notes}
```
echo "words to translate" | hmt translate {path}
```
"""


@dataclass(frozen=True)
class ModelConfig:
    """config.json: with the weights and the tokenizers, all that a model is."""

    format: int
    system: str  # a name, or package.module:Class
    config: dict[str, Any]  # the system's Config
    knobs: dict[str, Any] = field(default_factory=dict)  # default inference settings
    languages: tuple[str, str] | None = None  # of source and target, if known
    avoids_loops: bool = False  # never writes a pattern that has just been repeated
    end_penalty: float = 0.0  # cost of a sentence end while more source comes
    facts: dict[str, Any] = field(default_factory=dict)  # where it comes from

    def __post_init__(self) -> None:
        check_languages(self.languages)
        check_end_penalty(self.end_penalty)


@dataclass(frozen=True)
class Card:
    """What README.md says beyond the configuration."""

    path: Path  # of the directory, as the user types it
    weights: str  # where they come from
    notes: tuple[str, ...] = ()  # more points of its list


def check_languages(languages: tuple[str, str] | None) -> None:
    """Refuse what no reader of a model would recognise as a language."""
    for language in languages or ():
        if not LANGUAGE.fullmatch(language):
            raise UserError(
                f'The language "{language}" is not a code such as de or pt-BR: '
                'give those of source and target, as in ["de", "en"].'
            )


def check_end_penalty(penalty: float) -> None:
    """Refuse a penalty that is negative or not finite."""
    if not 0 <= penalty < math.inf:
        raise UserError(
            f"end_penalty = {penalty}: give what a sentence end costs in log-probability while "
            "more source comes, 0 (nothing) or more."
        )


def describe(system: System[ConfigT, KnobsT, MemoryT], name: str = "", **more: Any) -> ModelConfig:
    """The configuration of a system, by its own or another name; `more` are further fields."""
    known = {
        "format": FORMAT,
        "system": name or system.name,
        "config": system.config,
        "knobs": system.knobs(),
    }
    return from_plain(ModelConfig, to_plain({**known, **more}))


def write_model(
    directory: Path,
    system: System,
    config: ModelConfig,
    tokenizers: Mapping[str, bytes],
    card: Card,
    *,
    is_half: bool = False,
    weights: Path | None = None,
) -> None:
    """Write a model directory; `tokenizers` are files, by name.

    The weights are the system's, in half precision if requested; or those of a weights file with
    the same content, which is then linked.
    """
    directory.mkdir(parents=True, exist_ok=True)
    # weights of another architecture must never be found beside the old configuration
    if _architecture(directory) not in (None, (config.system, config.config)):
        (directory / CONFIG).unlink(missing_ok=True)
    for name, content in tokenizers.items():
        write_atomically(directory / name, content)
    write_atomically(directory / CARD_FILE, _card(system, config, card))
    if weights is not None:
        link(directory / WEIGHTS, weights)
    else:
        write_weights(directory / WEIGHTS, unshared(system), is_half=is_half)
    text = json.dumps(to_plain(config), indent=1, ensure_ascii=False) + "\n"
    write_atomically(directory / CONFIG, text)


def _architecture(directory: Path) -> tuple[str, dict[str, Any]] | None:
    """What decides the shapes of a directory's weights; None where there is no model."""
    try:
        config = read_config(directory)
    except UserError:
        return None
    return config.system, config.config


def _card(system: System, config: ModelConfig, card: Card) -> str:
    dims = system.transformers[0].dims
    trust = "--trust " if is_foreign(config.system) else ""
    return CARD.format(
        name=card.path.resolve().name,
        system=config.system,
        languages=" from {} to {}".format(*config.languages) if config.languages else "",
        parameters=count_parameters(system),
        source=dims.source_vocabulary,
        target=dims.target_vocabulary,
        weights=card.weights,
        knobs=json.dumps(config.knobs),
        notes="".join(f"- {note}\n" for note in card.notes),
        path=trust + shlex.quote(str(card.path)),
    )


def load_system(directory: Path, trust: bool = False) -> tuple[System, ModelConfig]:
    """A system in single precision, and its configuration; `trust` lets it run code of its own."""
    config = read_config(directory)
    weights = directory / WEIGHTS
    system = system_of(directory, config, trust, [weights])
    fill(system, read_weights(weights), str(directory))
    return system, config


def system_of(directory: Path, config: ModelConfig, trust: bool, weights: Sequence[Path]) -> System:
    """The system of a directory's configuration, yet to be filled with what these files hold.

    Nothing is allocated before they are known to fit: a configuration can claim any size.
    """
    try:
        if is_foreign(config.system):  # it may not know torch's `meta`, and is trusted anyway
            return build(config.system, config.config, trust=trust)
        expected = outline(config.system, config.config)
    except UserError as error:
        raise UserError(f"{directory / CONFIG}: {error}") from None
    for path in weights:
        check_fit(expected, shapes_of(path), str(path))
    return build(config.system, config.config)


def load_segmenter(directory: Path, dims: Dims) -> Segmenter | None:
    """The segmenter beside a model of this shape; None if the directory has none."""
    path = directory / SEGMENTER
    if not path.exists():
        return None
    shapes = shapes_of(path)
    if "words.weight" in shapes and "outputs.weight" in shapes:
        raise UserError(
            f"{path} is from an older version, which knew words alone; remove it, or train "
            "another with `hmt segmenter`."
        )
    memory = (shapes.get("outputs.weight") or (0,))[-1]
    layers = len({name.split(".")[1] for name in shapes if name.startswith("encoder.")})
    least, most = DIMS["width"]
    if not (least <= memory <= most and 0 < layers <= dims.encoder_layers):
        raise UserError(
            f"{path} does not hold a segmenter of this model; remove it, or train another with "
            "`hmt segmenter`."
        )
    with unallocated():
        expected = Segmenter(dims, layers, memory)
    check_fit(expected, shapes, str(path))
    segmenter = Segmenter(dims, layers, memory)
    fill(segmenter, read_weights(path), str(path))
    return segmenter.eval()


def write_segmenter(directory: Path, segmenter: Segmenter) -> None:
    """Add a segmenter to a model directory, in half precision."""
    write_weights(directory / SEGMENTER, unshared(segmenter), is_half=True)


def compose_system(name: str, directories: Sequence[Path], trust: bool = False) -> System:
    """A system made of the models in other directories; it has copies of their weights."""
    kind = system_named(name, trust)
    return kind.compose([load_system(directory, trust)[0] for directory in directories])


def read_config(directory: Path) -> ModelConfig:
    """The configuration of a model directory."""
    path = directory / CONFIG
    try:
        is_there = path.is_file()
    except OSError as error:  # a name that is too long, a folder that may not be read
        raise UserError(f"{directory} cannot be opened ({error.strerror}).") from None
    if not is_there:
        raise UserError(
            f"{directory} is not a model directory: it has no {CONFIG}; name one that hmt wrote."
        )
    try:
        values = json_object(path.read_text(encoding="utf-8"))
        if "format" in values and values["format"] != FORMAT:
            raise UserError(
                f"this is format {shortened(values['format'])}, but this version of hmt reads "
                f"format {FORMAT}; load it with the version that wrote it, or a later one."
            )
        return from_plain(ModelConfig, values)
    except (OSError, UnicodeDecodeError, UserError) as error:
        raise UserError(f"{path}: {error}") from None
