"""Where a run may write: a directory that is new, empty or its own, so that nothing is lost."""

from pathlib import Path

from hmt.errors import UserError
from hmt.files import refuse_special
from hmt.models.directory import WEIGHTS
from hmt.plain import json_object
from hmt.training.checkpoint import PREVIOUS, STATE
from hmt.training.journal import LOG
from hmt.training.snapshots import all_snapshots

RECIPE = "recipe.json"
# Files that a run killed before its recipe was written may have left in training/.
BEGUN = ("lock", "snapshots")


def check_place(directory: Path) -> None:
    """Refuse an output directory that holds anything but a run."""
    for path in (directory / "training", directory / "training" / "snapshots"):
        if path.is_symlink():
            raise UserError(
                f"{path} is a symbolic link, which a run does not follow: set output to a "
                "directory on that disk instead."
            )
    if directory.is_symlink() and not directory.exists():
        raise UserError(f"{directory} is a broken symbolic link: set another output.")
    if not directory.exists() or _is_run(directory):
        return
    if not directory.is_dir():
        raise UserError(f"{directory} is a file: set output to a new directory.")
    if (directory / WEIGHTS).exists():
        raise UserError(
            f"{directory} already holds a model but not its training state: set another output, or "
            "remove it first."
        )
    if not _is_hardly_begun(directory):
        raise UserError(
            f"{directory} holds files that do not belong to a run, and was left unchanged: set "
            "output to a new or an empty directory."
        )


def _is_run(directory: Path) -> bool:
    """Whether there is a state, or a recipe written by a run; other tools use these names too."""
    folder = directory / "training"
    if any((folder / name).is_file() for name in (STATE, PREVIOUS)):
        return True
    try:
        refuse_special(folder / RECIPE)
        values = json_object((folder / RECIPE).read_text(encoding="utf-8"))
    except (OSError, ValueError, UserError):
        return False
    return {"recipe", "versions"} <= values.keys()


def _is_hardly_begun(directory: Path) -> bool:
    """Whether there is nothing, or only what a run that was killed at its very start leaves."""
    folder = directory / "training"
    inside = [p for p in directory.rglob("*") if p != folder]
    return all(
        path.parent == folder and (path.name in BEGUN or path.name.startswith(f".{RECIPE}."))
        for path in inside
    )


def refuse_orphans(directory: Path, *, makes_updates: bool) -> None:
    """Refuse to start over if the state is missing but the rest of its run is present."""
    log = directory / LOG
    found = [
        *all_snapshots(directory / "training")[-1:],
        *([log] if log.is_file() and log.stat().st_size else []),
        # a composed model is not trained: it can be made again
        *([directory / WEIGHTS] if makes_updates and (directory / WEIGHTS).exists() else []),
    ]
    if found:
        raise UserError(
            f"{directory / 'training' / STATE} is missing, but {found[0]} is there and would be "
            "lost: restore the state from a copy, or set another output (a weights file can begin "
            "another run: training.warm_start)."
        )
