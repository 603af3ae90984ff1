"""Numbers of the HMT authors' own code, computed from one of their checkpoints."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from hmt.evaluation.forced import forced
from hmt.models.fairseq import convert_fairseq
from hmt.models.model import Model, load
from hmt.systems.batch import make_batch
from hmt.systems.hmt import HMT
from hmt.text.symbols import EOS

TOLERANCE = 1e-4  # their numbers are in single precision


@pytest.fixture(scope="module")
def golden(shared: Path) -> Path:
    folder = shared / "golden"
    if not folder.is_dir():
        pytest.skip(f"no golden numbers at {folder}")
    return folder


@pytest.fixture(scope="module")
def model(golden: Path, tmp_path_factory: pytest.TempPathFactory) -> Model:
    output = tmp_path_factory.mktemp("golden") / "model"
    convert_fairseq(golden / "checkpoint.pt", golden / "dict.txt", golden / "dict.txt", output)
    return load(output)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("name", ["no_ties", "ties"])
def test_forced_decoding(golden: Path, model: Model, name: str) -> None:
    """Losses, moments, confidences and reads, 24 pairs in padded batches.

    Planted bugs: row 0 of the selection taken for "select"; positions counted from 0; key and
    value exchanged; the state and the mean exchanged; embeddings not scaled.
    """
    rows = lines(golden / f"{name}.jsonl")
    sources, targets = ([r[side] for r in rows] for side in ("source", "target"))
    found = list(forced(model, sources, targets, model.knobs(), batch=10))
    assert [f["index"] for f in found] == list(range(len(rows)))
    for got, row in zip(found, rows, strict=True):
        for part, value in row["loss"].items():
            assert got["loss"][part] == pytest.approx(value, rel=TOLERANCE, abs=2e-6), part
        assert got["moments"] == row["moments"]
        assert got["reads"] == row["forced_reads"]
        for mine, theirs in zip(got["confidence"], row["confidence"], strict=True):
            assert mine == pytest.approx(theirs, rel=TOLERANCE, abs=1e-6)
        for i, moment in enumerate(got["reads"]):
            at = row["moments"][i].index(moment)
            expected = row["gold_log_prob"][i][at]
            assert got["log_prob"][i] == pytest.approx(expected, rel=TOLERANCE, abs=2e-6)
        assert got["target_tokens"] == [*row["target"].split(), "</s>"]


def test_features(golden: Path, model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hidden vectors of encoder and decoder, and whole distributions of three pairs."""
    tensors = np.load(golden / "tensors.npz")
    system = model.system
    assert isinstance(system, HMT)
    for n, row in enumerate(lines(golden / "no_ties.jsonl")[:3]):
        source = [*model.source_tokenizer.encode(row["source"]), EOS]
        target = [*model.target_tokenizer.encode(row["target"]), EOS]
        states: list[torch.Tensor] = []
        with torch.inference_mode():
            h = system.transformer.encode(torch.tensor([source]))
            translation = system.translation

            def spy(*given: Tensor, call: Any = translation, states: Any = states) -> Any:
                states.append(given[0])
                return call(*given)

            monkeypatch.setattr(system, "translation", spy)
            table = system.forward_states(make_batch([source], [target]), system.knobs()).table
            monkeypatch.undo()
            log_prob = system.transformer.output(states[0]).log_softmax(-1)
        assert np.allclose(h, tensors[f"{n}.encoder_output"], rtol=TOLERANCE, atol=TOLERANCE)
        shape = tensors[f"{n}.state_output"].shape
        assert table.moment.view(shape[:2]).tolist() == tensors[f"{n}.moments"].tolist()
        for mine, name in ((states[0], "state_output"), (log_prob, "log_prob")):
            theirs = tensors[f"{n}.{name}"]
            assert np.allclose(mine.view(theirs.shape), theirs, rtol=TOLERANCE, atol=TOLERANCE)


@pytest.mark.parametrize("slots", [1, 16])
def test_decoding(golden: Path, model: Model, slots: int) -> None:
    """Forty simultaneous translations: the same tokens at the same moments.

    Planted bug: confidence below the threshold writes.
    """
    rows = lines(golden / "decode.jsonl")[: 40 if slots > 1 else 10]
    records = model.translate([r["source"] for r in rows], batch=slots)
    for record, row in zip(records, rows, strict=True):
        if row["ended"]:
            assert record.prediction == row["output"]
            assert record.reads == row["reads"]
        chosen = [
            c[m.index(g)]
            for c, m, g in zip(record.confidences, record.moments, record.reads, strict=True)
        ]
        assert chosen == pytest.approx(row["confidence"], rel=TOLERANCE, abs=2e-6)
