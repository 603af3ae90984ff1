"""Eight bits: nearly the same translations, and only where they are of use."""

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
