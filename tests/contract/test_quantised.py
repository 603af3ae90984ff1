"""Eight bits: nearly the same translations, and only where they are of use."""

from pathlib import Path

import pytest
import torch

import hmt
from hmt.errors import UserError

LINES = ["Ich habe keine Zeit.", "Wo ist mein Buch?", "Das Wetter ist heute schön.", "Hallo!"]


def test_eight_bits_change_the_weights_and_hardly_the_translation() -> None:
    ordinary, small = hmt.load(), hmt.load(int8=True)
    kinds = {type(m).__name__ for m in small.system.transformer.modules()}
    floats = [m for m in small.system.transformer.modules() if type(m) is torch.nn.Linear]
    assert not floats and "Linear" in kinds  # what PyTorch calls its own quantised layer
    found, expected = small.translate(LINES, lower=4), ordinary.translate(LINES, lower=4)
    same = sum(a.prediction == b.prediction for a, b in zip(found, expected, strict=True))
    assert same >= 3
    for a, b in zip(found, expected, strict=True):
        if a.prediction == b.prediction:
            assert a.log_probs != b.log_probs
            assert a.log_probs == pytest.approx(b.log_probs, abs=0.5)


def test_a_session_in_eight_bits_writes_what_translate_writes() -> None:
    model = hmt.load(int8=True)
    session = model.session(by_line=True, lower=4)
    text = "".join(session.push(word) for word in LINES[0].split()) + session.finish()
    assert text == model.translate(LINES[:1], lower=4)[0].prediction


def test_eight_bits_are_for_the_cpu() -> None:
    with pytest.raises(UserError, match="int8 is for the CPU"):
        hmt.load(device="cuda", int8=True)


def test_a_model_in_eight_bits_can_be_shown_and_measured(tmp_path: Path) -> None:
    """Its state has pairs and types beside tensors; its results are not the other model's."""
    ordinary, small = hmt.load(), hmt.load(int8=True)
    assert repr(small) == repr(ordinary)
    (tmp_path / "source").write_text("".join(f"{line}\n" for line in LINES[:2]))
    text = hmt.read_parallel(tmp_path / "source")
    (point,) = hmt.evaluate(small, text, tmp_path / "out")
    assert point["sentences"] == 2
    with pytest.raises(UserError, match="results of another model"):
        hmt.evaluate(ordinary, text, tmp_path / "out")
