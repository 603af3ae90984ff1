"""The snapshots of a run: weights files named by their stage and step, kept to be averaged."""

import re
from collections.abc import Callable
from pathlib import Path

NAME = re.compile(r"stage\d+-step\d{9,}\.safetensors", re.ASCII)


def snapshot_path(directory: Path, stage: int, step: int) -> Path:
    """The path of the snapshot of a stage (from 0) and a step."""
    return directory / "snapshots" / f"stage{stage + 1}-step{step:09d}.safetensors"


def all_snapshots(directory: Path) -> list[Path]:
    """Snapshots of all stages, in order."""
    found = (directory / "snapshots").glob("stage*-step*.safetensors")
    return sorted(filter(_is_named_well, found), key=_stage_and_step)


def snapshots(directory: Path, stage: int | None = None) -> list[Path]:
    """Snapshots of a stage (from 0; None: the last that has any), in order of their steps."""
    paths = all_snapshots(directory)
    if stage is None and paths:
        stage = _stage_and_step(paths[-1])[0] - 1
    return [p for p in paths if _stage_and_step(p)[0] - 1 == stage]


def step_of(path: Path) -> int:
    """The step at which a snapshot was taken."""
    return _stage_and_step(path)[1]


def _is_named_well(path: Path) -> bool:
    """Whether a run chose this name; a copy such as stage1-step000000004-best is the user's."""
    return NAME.fullmatch(path.name) is not None


def _stage_and_step(path: Path) -> tuple[int, int]:
    stage, step = path.stem.split("-")
    return int(stage.removeprefix("stage")), int(step.removeprefix("step"))


def forget_snapshots(directory: Path, unwanted: Callable[[int], bool]) -> None:
    """Delete the snapshots at unwanted steps."""
    for path in all_snapshots(directory):
        if unwanted(step_of(path)):
            path.unlink()


def rotate(directory: Path, keep: int) -> None:
    """Delete all but the last `keep` snapshots, whatever their stage."""
    for path in all_snapshots(directory)[:-keep]:
        path.unlink()
