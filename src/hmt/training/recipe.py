"""A recipe: everything that decides a training run, read from TOML into frozen dataclasses.

A recipe has one stage, or several `[[stage]]` tables.  Each stage is the recipe's own `[model]` and
`[training]` with the stage's entries laid over them, and starts from the weights of the one before.
"""

import json
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from hmt.errors import UserError

Table = dict[str, Any]
Section = TypeVar("Section")
PRECISIONS = ("fp32", "bf16", "fp16")
KINDS = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "a string",
    dict: "a table",
    list: "a list",
}


@dataclass(frozen=True)
class Data:
    """Where the prepared corpus is."""

    directory: str


@dataclass(frozen=True)
class Model:
    """Which system, its Config without the vocabulary sizes (the data has them), its Knobs.

    A system that is composed of trained ones names their directories instead of a Config.
    """

    system: str
    config: dict[str, Any] = field(default_factory=dict)
    knobs: dict[str, Any] = field(default_factory=dict)
    models: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not all(isinstance(name, str) for name in self.models):
            raise UserError(f"model.models = {self.models} must be a list of model directories.")
        if self.models and self.config:
            raise UserError("model.models bring their own configuration: leave out model.config.")


@dataclass(frozen=True)
class Training:
    """How one stage is trained; the defaults are the papers' where they agree."""

    updates: int
    batch_tokens: int = 4096  # target tokens of a batch with padding; the source has the same limit
    accumulate: int = 1  # batches per update
    learning_rate: float = 5e-4  # reached at the end of the warm-up
    warmup: int = 4000
    warmup_init: float = 1e-7
    betas: tuple[float, float] = (0.9, 0.98)
    weight_decay: float = 0.0  # decoupled, as in AdamW and fairseq's adam
    clip: float = 0.0  # largest gradient norm; 0 = off
    precision: str = "fp32"
    compile: bool = False
    warm_start: str = ""  # a model directory or .safetensors file; first stage only
    save_every: int = 1000
    keep: int = 5  # snapshots that stay on disk
    average_last: int = 1  # snapshots averaged into the finished model; 1 = the last weights
    validate_every: int = 0  # 0 = never
    validation_sentences: int = 200  # translated at each validation
    metric: str = "loss"  # what patience watches
    patience: int = 0  # validations without improvement before the stage ends; 0 = off
    log_every: int = 100
    threads: int = 0  # 0 = all cores
    tensorboard: bool = False

    def __post_init__(self) -> None:
        at_least = {"updates": 0, "batch_tokens": 1, "accumulate": 1, "save_every": 1, "keep": 1}
        at_least |= {"average_last": 1, "log_every": 1, "validation_sentences": 0, "warmup": 0}
        at_least |= {"warmup_init": 0, "weight_decay": 0, "clip": 0, "validate_every": 0}
        at_least |= {"patience": 0, "threads": 0}
        for key, least in at_least.items():
            if not getattr(self, key) >= least:
                raise UserError(
                    f"training.{key} = {getattr(self, key)} is too small: give {least} or more."
                )
        if not self.learning_rate > 0:
            raise UserError(f"training.learning_rate = {self.learning_rate} must be above 0.")
        if not all(0 <= beta < 1 for beta in self.betas):
            raise UserError(f"training.betas = {list(self.betas)}: both must be in [0, 1).")
        if self.precision not in PRECISIONS:
            raise UserError(
                f'training.precision = "{self.precision}" is unknown: '
                f"choose one of {', '.join(PRECISIONS)}."
            )
        if self.keep < self.average_last:
            raise UserError(
                f"training.average_last = {self.average_last} needs as many snapshots, but "
                f"training.keep = {self.keep}: raise keep."
            )
        if self.patience and not self.validate_every:
            raise UserError("training.patience needs training.validate_every above 0: set both.")


@dataclass(frozen=True)
class Stage:
    """One stage with everything filled in."""

    model: Model
    training: Training

    def __post_init__(self) -> None:
        if self.training.updates < 1 and not self.model.models:
            raise UserError("training.updates = 0 is too small: give 1 or more.")


@dataclass(frozen=True)
class Recipe:
    """A whole run; `output` is the model directory that it writes."""

    output: str
    seed: int
    data: Data
    stages: tuple[Stage, ...]

    def as_dict(self) -> Table:
        """In the shape of a recipe file, so that it can be read again."""
        stages = [asdict(stage) for stage in self.stages]
        head = {"output": self.output, "seed": self.seed, "data": asdict(self.data)}
        # through JSON, so that a recipe compares equal to one that was saved (tuples are lists)
        return dict(json.loads(json.dumps({**head, "stage": stages})))


def load_recipe(path: Path | str, overrides: Iterable[str] = ()) -> Recipe:
    """Read a recipe (.toml, or the recipe.json of a run) with `a.b=c` overrides."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
        table = tomllib.loads(text) if path.suffix != ".json" else json.loads(text)
    except OSError as error:
        raise UserError(
            f"The recipe {path} cannot be read ({error.strerror}): name a .toml file."
        ) from None
    except ValueError as error:
        raise UserError(f"The recipe {path} is not valid: {error}.") from None
    if path.suffix == ".json":
        table = table.get("recipe") if isinstance(table, dict) else None
        if not isinstance(table, dict):
            raise UserError(f"{path} is not the recipe.json of a run: name that, or a .toml file.")
    for override in overrides:
        _override(table, override)
    return parse_recipe(table)


def parse_recipe(table: Table) -> Recipe:
    """Check a recipe's table and lay its stages out in full."""
    known = ["output", "seed", "data", "model", "training", "stage"]
    _refuse_unknown(table, known, "")
    head = {key: table[key] for key in ("output", "seed", "data") if key in table}
    given = table.get("stage", [{}])
    if not isinstance(given, list) or not given:
        raise UserError("`stage` must be written as one or more [[stage]] tables.")
    stages = tuple(_stage(table, stage, number) for number, stage in enumerate(given, 1))
    if any(stage.training.warm_start for stage in stages[1:]):
        raise UserError(
            "Only the first stage can have training.warm_start: "
            "the others start from the stage before them."
        )
    return _build(Recipe, {"seed": 1, **head, "stages": stages}, "")


def _stage(table: Table, stage: Any, number: int) -> Stage:
    """Lay one [[stage]] over the recipe's own tables."""
    where = f"stage.{number}" if "stage" in table else ""
    if not isinstance(stage, dict):
        raise UserError(f"{where} must be a table.")
    _refuse_unknown(stage, ["model", "training"], where)
    model, training = table.get("model", {}), table.get("training", {})
    if number > 1:
        training = {key: training[key] for key in training if key != "warm_start"}
    own = stage.get("model", {})
    for part in (model, training, own, stage.get("training", {})):
        if not isinstance(part, dict):
            raise UserError(f"{where or 'The recipe'}: model and training must be tables.")
    if not isinstance(model.get("config", {}), dict):
        raise UserError("model.config must be a table.")
    if "system" in own and own["system"] != model.get("system"):
        # another system has other settings; only the network's dimensions carry over
        dims = model.get("config", {}).get("dims", {})
        model = {"config": {"dims": dims}}
    merged = {
        "model": _merge(model, own),
        "training": _merge(training, stage.get("training", {})),
    }
    if merged["model"].get("models"):
        # to compose them is all there is to do, unless updates are asked for
        merged["training"] = {"updates": 0, **merged["training"]}
    return _build(Stage, merged, "")


def _merge(below: Any, above: Any) -> Any:
    if not (isinstance(below, Mapping) and isinstance(above, Mapping)):
        return above
    return {**below, **{k: _merge(below[k], v) if k in below else v for k, v in above.items()}}


def _override(table: Table, override: str) -> None:
    """Apply one `a.b=c`; stages count from 1, as in the log."""
    name, equals, text = override.partition("=")
    keys = name.strip().split(".")
    if not equals or not all(keys):
        raise UserError(f'"{override}" is not an override: write --set section.key=value.')
    at: Any = table
    for depth, key in enumerate(keys[:-1]):
        if isinstance(at, list):
            if not key.isdigit() or not 1 <= int(key) <= len(at):
                raise UserError(
                    f'"{override}": there is no stage {key}; this recipe has 1 to {len(at)}.'
                )
            at = at[int(key) - 1]
        else:
            at = at.setdefault(key, {})
        if not isinstance(at, dict | list):
            raise UserError(f'"{override}": {".".join(keys[: depth + 1])} is not a table.')
    if not isinstance(at, dict):
        raise UserError(
            f'"{override}": name a stage, for example {keys[0]}.1.training.updates=100.'
        )
    at[keys[-1]] = _value(text.strip(), override)


def _value(text: str, override: str) -> Any:
    """Read a TOML value; a bare word is a string, because shells eat quotes."""
    try:
        parsed = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        parsed = {}
    if list(parsed) == ["value"]:
        return parsed["value"]
    if not text or text[0] in "\"'[{" or "\n" in text:
        raise UserError(f'"{override}": {text or "nothing"} is not a value in TOML.') from None
    return text


def _refuse_unknown(table: Mapping[str, Any], known: list[str], where: str) -> None:
    for key in table:
        if key not in known:
            name = f"{where}.{key}" if where else key
            raise UserError(
                f'The recipe has an unknown key "{name}"; allowed here: {", ".join(known)}.'
            )


def _build(cls: type[Section], table: Any, where: str) -> Section:
    """Make a dataclass of a table; an unknown, missing or ill-typed key is the user's mistake."""
    if not isinstance(table, Mapping):
        raise UserError(f"{where} must be a table, not {table!r}.")
    parts = fields(cls)  # type: ignore[arg-type]
    hints = get_type_hints(cls)
    _refuse_unknown(table, [part.name for part in parts], where)
    for part in parts:
        is_optional = part.default is not MISSING or part.default_factory is not MISSING
        if part.name not in table and not is_optional:
            name = f"{where}.{part.name}" if where else part.name
            raise UserError(f'The recipe lacks "{name}": add it, or give it with --set {name}=...')
    return cls(
        **{
            key: _typed(value, hints[key], f"{where}.{key}" if where else key)
            for key, value in table.items()
        }
    )


def _typed(value: Any, kind: Any, name: str) -> Any:
    """Check one value against its annotation; whole numbers do as fractions."""
    if is_dataclass(kind) and isinstance(kind, type):
        return value if isinstance(value, kind) else _build(kind, value, name)
    if get_origin(kind) is tuple:
        kinds = get_args(kind)
        if Ellipsis in kinds:
            return value
        if isinstance(value, list | tuple) and len(value) == len(kinds):
            return tuple(_typed(v, k, name) for v, k in zip(value, kinds, strict=True))
        raise UserError(f"{name} must be a list of {len(kinds)} numbers, not {value!r}.")
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    kind = get_origin(kind) or kind
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise UserError(f"{name} must be {KINDS[kind]}, not {value!r}.")
    return value
