"""The mean of several checkpoints as a model directory of its own."""

import json
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from hmt.errors import UserError
from hmt.models import weights
from hmt.models.directory import (
    CONFIG,
    TOKENIZER_FILES,
    WEIGHTS,
    fill,
    read_config,
    tokenizer_files,
)
from hmt.systems import build

CARD = """\
# {name}

A *{system}* model for simultaneous translation: the average of
{sources}

```
echo "words to translate" | hmt translate {name}
```
"""


def average_models(
    paths: Sequence[Path], output: Path, last: int, is_half: bool = False
) -> list[Path]:
    """Average a run's last snapshots, or several model directories; give what was averaged.

    In half precision the file is half as large; models compute in single precision all the same.
    """
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise UserError(f"{output} already exists; name a new directory for the average.")
    configs = [read_config(path) for path in paths]
    for path, config in zip(paths, configs, strict=True):
        same = all(config[key] == configs[0][key] for key in ("system", "config"))
        if not same or tokenizer_files(path) != tokenizer_files(paths[0]):
            raise UserError(f"{path} is another model than {paths[0]}: average models of one run.")
    averaged = _snapshots(paths[0], last) if len(paths) == 1 else [path / WEIGHTS for path in paths]
    tensors = weights.average(averaged)
    if is_half:
        tensors = {name: tensor.half() for name, tensor in tensors.items()}
    config = configs[0]
    # proves that the weights belong to the configuration before anything is written
    fill(build(config["system"], config["config"]), tensors, str(paths[0]))
    config["facts"] = {**config.get("facts", {}), "steps": [], **_facts(averaged)}
    card = CARD.format(
        name=output.name,
        system=config["system"],
        sources="\n".join(f"- `{path}`" for path in averaged),
    )
    output.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{output.name}.", dir=output.parent))
    # a temporary directory is its owner's alone; a model is as public as the place it stands in
    draft.chmod(output.parent.stat().st_mode & 0o777)
    try:
        for name in TOKENIZER_FILES:
            if (paths[0] / name).is_file():
                shutil.copyfile(paths[0] / name, draft / name)
        (draft / "README.md").write_text(card, encoding="utf-8")
        weights.write_weights(draft / WEIGHTS, tensors, {"weights": "average"})
        text = json.dumps(config, indent=1, ensure_ascii=False) + "\n"
        (draft / CONFIG).write_text(text, encoding="utf-8")
        draft.replace(output)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    return averaged


def _snapshots(run: Path, last: int) -> list[Path]:
    found = weights.snapshots(run / "training")
    if len(found) < last:
        raise UserError(
            f"{run} has {len(found)} snapshots, not {last}: lower --last, name a run directory, or "
            "name several model directories."
        )
    return found[-last:]


def _facts(averaged: Sequence[Path]) -> dict[str, object]:
    facts: dict[str, object] = {"weights": "average", "averaged": [str(path) for path in averaged]}
    if all(path.stem.startswith("stage") for path in averaged):
        facts["steps"] = [weights.step_of(path) for path in averaged]
    return facts
