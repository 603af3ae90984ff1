"""Steps that are commands of hmt: prepare, train, evaluate, analyse."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from hmt.models.directory import WEIGHTS
from hmt.paper.plan import Place, Step
from hmt.paper.runs import checked_recipe, is_finished, stated_seconds

TEST = "test_2016_flickr"
SECONDS_PER_POINT = 15.0  # 1,000 captions through a small model, and 1,000 resamples of scores


def test_files(place: Place) -> tuple[Path, Path]:
    """Source and reference of the test set."""
    return place.data / f"{TEST}.de", place.data / f"{TEST}.en"


def prepare(place: Place) -> Step:
    """Multi30k as token files."""
    names = ("train.de.gz", "train.en.gz", "val.de", "val.en")
    files = tuple(place.data / name for name in names)
    return prepare_text("prepare", files, ("--size", str(place.pieces)), place.runs / "data")


def prepare_text(
    name: str, files: Sequence[Path], options: Sequence[str], folder: Path, seconds: float = 20.0
) -> Step:
    """A corpus as token files; `files` are both sides for training, then for validation."""
    keys = ("--source", "--target", "--valid-source", "--valid-target")
    words = [word for key, path in zip(keys, files, strict=True) for word in (key, str(path))]
    command = ("prepare", *words, *options, "--output", str(folder))
    output = folder / "data.json"
    return Step(name, command, tuple(files), output, seconds, is_finished=output.exists)


def train(
    place: Place,
    name: str,
    recipe: str,
    overrides: Sequence[str] = (),
    *,
    data: Step | None = None,
    warm_start: Step | None = None,
    models: Sequence[Step] = (),
    share: float = 1.0,
) -> Step:
    """A run of a recipe of Multi30k, or of CORPUS/RECIPE with its own data.

    `share` is its cost as a multiple of the one stated at the head of the recipe.
    """
    data = data or prepare(place)
    folder = place.recipes.parent if "/" in recipe and data.name != "prepare" else place.recipes
    path, run = folder / f"{recipe}.toml", place.runs / name
    settings = [f"output={run}", f"data.directory={data.output.parent}", *overrides]
    if warm_start is not None:
        settings.append(f"training.warm_start={warm_start.output.parent}")
    if models:
        listed = ", ".join(f'"{step.output.parent}"' for step in models)
        settings.append(f"model.models=[{listed}]")
    words = [word for setting in settings for word in ("--set", setting)]
    before = (data, *([warm_start] if warm_start else []), *models)
    seconds = stated_seconds(checked_recipe(path))
    return Step(
        f"train {name}",
        ("train", str(path), *words),
        (path, *(step.output for step in before)),
        run / WEIGHTS,
        None if seconds is None else seconds * share,
        is_training=True,
        needs=before,
        is_finished=lambda: is_finished(run, path, settings),
    )


def evaluate(
    place: Place,
    folder: str,
    trained: Step,
    sweep: Mapping[str, str],
    files: tuple[Path, Path] | None = None,
    seconds_per_point: float = SECONDS_PER_POINT,
) -> Step:
    """A model on a test set, at every combination of the settings in a sweep."""
    source, target = files or test_files(place)
    output = place.output / folder
    options = [word for key, values in sweep.items() for word in (f"--{key}", values)]
    words = ["--source", str(source), "--target", str(target), "--output", str(output)]
    points = 1
    for values in sweep.values():
        points *= len(values.split(","))
    return Step(
        f"evaluate {folder}",
        ("evaluate", str(trained.output.parent), *words, *options),
        (trained.output, source, target),
        output / "scores.json",
        seconds_per_point * points,
        needs=(trained,),
    )


def analyse(
    place: Place,
    what: str,
    folder: str,
    words: Sequence[str],
    needs: Sequence[Step],
    *,
    file: str = "",
    inputs: Sequence[Path] = (),
    seconds: float = 30.0,
    private: tuple[str, ...] = (),
) -> Step:
    """An analysis; its output is WHAT.json in the folder, unless a file is named."""
    output = place.output / folder
    return Step(
        f"analyse {folder}",
        ("analyse", what, *words, "--output", str(output)),
        (*(step.output for step in needs), *inputs),
        output / (file or f"{what}.json"),
        seconds,
        needs=tuple(needs),
        private=private,
    )
