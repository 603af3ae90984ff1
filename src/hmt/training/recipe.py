"""A recipe: everything that determines a training run, read from TOML into frozen dataclasses.

A recipe has one stage, or several `[[stage]]` tables.  Each stage is the recipe's own `[model]` and
`[training]` with the stage's entries laid over them, and starts from the weights of the one before.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hmt.errors import UserError
from hmt.models.directory import check_end_penalty, check_languages
from hmt.plain import check_depth, from_plain, json_object, to_plain, toml_table

Table = dict[str, Any]
PRECISIONS = ("fp32", "bf16", "fp16")
DECAYS = ("sqrt", "linear")
OPTIMIZERS = ("adam", "muon")
# The remedy for a missing key, see `from_plain`.
MISSING = "add it to the recipe, or give it with --set {key}=..."
# Settings of [model] that a stage with another system keeps.
OF_THE_MODEL = ("languages", "avoids_loops", "end_penalty")


@dataclass(frozen=True)
class Data:
    """Where the prepared corpus is."""

    directory: str


@dataclass(frozen=True)
class Model:
    """Which system, its Config without the vocabulary sizes (which the data has), its Knobs.

    A system that is composed of trained ones names their directories instead of a Config.
    """

    system: str  # a name, or package.module:Class for a system outside hmt
    config: Table = field(default_factory=dict)
    knobs: Table = field(default_factory=dict)
    models: list[str] = field(default_factory=list)
    languages: tuple[str, str] | None = None  # of source and target, as in ["de", "en"]
    avoids_loops: bool = False  # never write a pattern that has just been repeated
    end_penalty: float = 0.0  # cost of a sentence end while more source comes

    def __post_init__(self) -> None:
        if self.models and self.config:
            raise UserError("model.models bring their own configuration: leave out model.config.")
        check_languages(self.languages)
        check_end_penalty(self.end_penalty)


@dataclass(frozen=True)
class Training:
    """How one stage is trained; the defaults are the papers' where they agree."""

    updates: int
    batch_tokens: int = 4096  # of a batch on either side, without padding
    accumulate: int = 1  # batches per update
    optimizer: str = "adam"  # or "muon" for the matrices of the layers, and adam for all else
    learning_rate: float = 5e-4  # reached at the end of the warm-up
    warmup: int = 4000
    warmup_init: float = 1e-7
    decay: str = "sqrt"  # with 1/sqrt(step), or "linear" to zero at the last update
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
        if self.threads > 1024:  # torch starts as many as it is asked for
            raise UserError(f"training.threads = {self.threads} is too large: give at most 1024.")
        if not self.learning_rate > 0:
            raise UserError(f"training.learning_rate = {self.learning_rate} must be above 0.")
        if not all(0 <= beta < 1 for beta in self.betas):
            raise UserError(f"training.betas = {list(self.betas)}: both must be in [0, 1).")
        choices = {"precision": PRECISIONS, "decay": DECAYS, "optimizer": OPTIMIZERS}
        for key, known in choices.items():
            if (given := getattr(self, key)) not in known:
                raise UserError(
                    f'training.{key} = "{given}" is unknown: choose one of {", ".join(known)}.'
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
        """In the format of a recipe file, so that it can be read again."""
        head = {"output": self.output, "seed": self.seed, "data": self.data}
        return dict(to_plain({**head, "stage": self.stages}))


def load_recipe(path: Path | str, overrides: Iterable[str] = ()) -> Recipe:
    """Read a recipe (.toml, or the recipe.json of a run) with `a.b=c` overrides."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
        table = json_object(text) if path.suffix == ".json" else toml_table(text)
    except OSError as error:
        raise UserError(
            f"The recipe {path} cannot be read ({error.strerror}): name a .toml file."
        ) from None
    except (UnicodeDecodeError, UserError) as error:
        reason = str(error).rstrip(".")
        raise UserError(f"The recipe {path} is not valid: {reason}.") from None
    if path.suffix == ".json":
        table = table.get("recipe", {})
        if not isinstance(table, dict):
            raise UserError(f"{path} is not the recipe.json of a run: name that, or a .toml file.")
    for override in overrides:
        _override(table, override)
    return parse_recipe(table)


@dataclass(frozen=True)
class StageTable:
    """A [[stage]] as written: what differs from the recipe's own tables."""

    model: Table = field(default_factory=dict)
    training: Table = field(default_factory=dict)


@dataclass(frozen=True)
class RecipeTable:
    """A recipe file as written."""

    output: str
    data: Data
    seed: int = 1
    model: Table = field(default_factory=dict)
    training: Table = field(default_factory=dict)
    stage: list[StageTable] = field(default_factory=lambda: [StageTable()])


def parse_recipe(table: Table) -> Recipe:
    """Check a recipe's table and expand its stages."""
    check_depth(table)
    if not isinstance(table.get("stage", []), list):
        raise UserError("`stage` must be written as one or more [[stage]] tables.")
    written = from_plain(RecipeTable, table, missing=MISSING)
    if not written.output.strip():
        raise UserError("`output` is empty; name a directory for the run.")
    if not written.stage:
        raise UserError("`stage` is empty; write one or more [[stage]] tables, or leave it out.")
    stages = tuple(_stage(written, number) for number in range(len(written.stage)))
    if any(stage.training.warm_start for stage in stages[1:]):
        raise UserError(
            "Only the first stage can have training.warm_start: "
            "the others start from the stage before them."
        )
    return Recipe(written.output, written.seed, written.data, stages)


def _stage(recipe: RecipeTable, number: int) -> Stage:
    """Lay one [[stage]] (from 0) over the recipe's own tables."""
    model, training, own = recipe.model, recipe.training, recipe.stage[number]
    if number:
        training = {key: training[key] for key in training if key != "warm_start"}
    if own.model.get("system", model.get("system")) != model.get("system"):
        # another system has other settings; the network's dimensions carry over
        config = model.get("config")
        dims = config.get("dims", {}) if isinstance(config, dict) else {}
        kept = {"config": {"dims": dims}} if dims else {}
        model = {**kept, **{k: model[k] for k in OF_THE_MODEL if k in model}}
    merged = {"model": _merge(model, own.model), "training": _merge(training, own.training)}
    if merged["model"].get("models"):
        # composing them is all there is to do, unless updates are requested
        merged["training"] = {"updates": 0, **merged["training"]}
    return from_plain(Stage, merged, missing=MISSING)


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
            if not key.isdecimal() or not 1 <= int(key) <= len(at):
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
        parsed = toml_table(f"value = {text}")
    except UserError:
        parsed = {}
    if list(parsed) == ["value"]:
        return parsed["value"]
    if not text or text[0] in "\"'[{" or "\n" in text:
        raise UserError(f'"{override}": {text or "nothing"} is not a value in TOML.') from None
    return text
