"""Gaussian multi-head attention: positions, spans, and streaming that asks for its source."""

import dataclasses
import random
from typing import Any

import pytest
import torch
from lively import (
    DIMS,
    assert_padding_changes_nothing,
    crosses,
    enliven,
    padded_reads,
    pairs,
    streamed,
)
from torch import Tensor

from hmt.errors import UserError
from hmt.model.attention import reports_of, split_projections
from hmt.model.passes import Packing, whole_pass
from hmt.model.rows import Row, Rows, plain_bias
from hmt.systems import build
from hmt.systems.contract import PassOutput
from hmt.systems.gma import GMA, Aligned, Gaussian, GMAConfig, gaussian_bias
from hmt.systems.stream import Plan, Read, Stream, Write
from hmt.text.symbols import EOS


class Stepping(Gaussian):
    """A layer whose increments are given."""

    given: list[float]

    def increments(self, query: Tensor) -> Tensor:
        return torch.tensor(self.given, dtype=torch.float64)[:, None]


def report_of(steps: list[float], source: int, delta: float) -> Aligned:
    """One layer with these increments on one sentence."""
    layer = Stepping(DIMS).double()
    object.__setattr__(layer, "given", steps)
    i = torch.arange(1, len(steps) + 1)[None]
    rows = Rows.of(i, torch.full_like(i, source))
    h = torch.randn(1, source, DIMS.width, dtype=torch.float64)
    at = whole_pass(
        rows,
        plain_bias(rows, rows, h.dtype),
        Packing(1, len(steps)),
        h,
        torch.tensor([source]),
        setting=delta,
    )
    x = torch.randn(len(steps), DIMS.width, dtype=torch.float64)
    attended = layer(x, split_projections(layer.keep(h), DIMS.heads, DIMS.width), at, None)
    return reports_of(Aligned, [attended.report])[0]


@pytest.mark.parametrize(("delta", "spans"), [(1.0, [2, 2, 3, 5, 6]), (2.0, [3, 3, 4, 6, 6])])
def test_worked_case(delta: float, spans: list[int]) -> None:
    """GM-1; the first increment does not count."""
    report = report_of([7.7, 1.0, 0.5, 2.2, 1.3], source=6, delta=delta)
    assert report.position[0].tolist() == pytest.approx([0.9, 1.0, 1.5, 3.7, 5.0])
    assert report.span[0].clamp(max=6).tolist() == spans
    assert report.register.item() == pytest.approx(5.0), "the sum goes on without the clamp"


def test_increments_are_those_of_the_scaled_query() -> None:
    torch.manual_seed(1)
    layer = Gaussian(DIMS).double()
    query = 3 * torch.randn(5, DIMS.width, dtype=torch.float64)
    scaled = query / (DIMS.width / DIMS.heads) ** 0.5
    expected = ((scaled @ layer.hidden.weight.T).tanh() @ layer.step.weight[0]).exp()
    torch.testing.assert_close(layer.increments(query)[:, 0], expected)


def test_bias_is_the_product_with_a_gaussian() -> None:
    """GM-2: a softmax with the bias is the softmax times the Gaussian, normalised."""
    torch.manual_seed(2)
    scores = torch.randn(3, 5, 8, dtype=torch.float64)
    position = 0.9 + 5 * torch.rand(3, 5, dtype=torch.float64)
    span = (position + 1).ceil().long().clamp(max=8)
    got = (scores + gaussian_bias(position, span, 8)).softmax(-1)
    place = torch.arange(8)
    visible = place < span[..., None]
    prior = (-((place - position[..., None]) ** 2) / (2 * (position[..., None] / 2) ** 2)).exp()
    product = scores.masked_fill(~visible, -torch.inf).softmax(-1) * prior
    expected = product / product.sum(-1, keepdim=True)
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("source", "expected"), [(9, 2), (2, 2), (1, 1)])
def test_first_token_sees_two(source: int, expected: int) -> None:
    """GM-3 with delta 1."""
    torch.manual_seed(3)
    system = enliven(GMA(GMAConfig(DIMS)))
    assert streamed(system, pairs([source], [3]))[0].reads[0] == expected


def test_positions_go_forward() -> None:
    """GM-4: increasing once they leave the lower end of their range, spans never shrink."""
    torch.manual_seed(4)
    system = enliven(GMA(GMAConfig(DIMS)))
    for report in system.forward_tokens(pairs([9], [12]), system.knobs()).reported(Aligned):
        position, span = report.position[0], report.span[0]
        free = (position > 0.9) & (position < 1100)
        assert (position.diff()[free[1:]] > 0).all()
        assert (span.diff() >= 0).all()


@pytest.mark.parametrize("delta", [0.9, 1.0, 2.0])
@pytest.mark.parametrize("seed", [1, 2])
def test_streaming_is_the_training_pass(delta: float, seed: int) -> None:
    """GM-5: the masked pass over whole sources gives the numbers and the delays of streaming."""
    torch.manual_seed(seed)
    system = enliven(GMA(GMAConfig(DIMS, delta=delta)))
    batch = pairs([7, 4, 12, 1, 9], [6, 8, 10, 3, 5], seed)
    done = system.forward_tokens(batch, system.knobs())
    gold = done.spread(system.gold(batch, done)[0])
    spans = torch.stack([report.span for report in done.reported(Aligned)]).amax(0)
    reads = spans.minimum(batch.source_length[:, None]).cummax(1).values
    streams = streamed(system, batch, slots=3)
    for n, stream in enumerate(streams):
        assert stream.reads == reads[n, : len(stream.reads)].tolist()
        expected = gold[n, : len(stream.reads)]
        torch.testing.assert_close(torch.tensor(stream.log_probs).to(expected), expected)
    assert len({g for stream in streams for g in stream.reads}) > 4
    scores = system.score(batch, system.knobs(), padded_reads(streams))
    torch.testing.assert_close(scores, gold)


def test_the_first_layer_that_asks_is_served_first() -> None:
    """What later layers ask for follows from source that the first has not seen yet."""
    system = GMA(GMAConfig(DIMS))
    plan = Plan([Row(1, 3)], drops_unless_written=True)
    reports = [
        Aligned(register=torch.zeros(1), position=torch.zeros(1, 1), span=torch.tensor([[n]]))
        for n in (2, 5, 9)
    ]
    states = torch.zeros(1, 16)
    output = PassOutput(states, lambda: states, [1], reports, system.transformer, [])
    assert system.decide([Stream(0, system.knobs(), None, read=3)], [plan], output) == [Read(5)]
    assert system.decide([Stream(0, system.knobs(), None, read=9)], [plan], output) == [Write(0)]
    ended = Stream(0, system.knobs(), None, read=3, source=[5, 6, EOS], source_ended=True)
    assert system.decide([ended], [plan], output) == [Write(0)]


def test_nothing_beyond_the_span_matters() -> None:
    """GM-6."""
    torch.manual_seed(6)
    system = enliven(GMA(GMAConfig(DIMS)))
    batch = pairs([12], [8])
    done = system.forward_tokens(batch, system.knobs())
    before = system.gold(batch, done)[0]
    reads = streamed(system, batch)[0].reads
    assert reads[3] < 12
    for i, read in enumerate(reads):
        other = batch.source.clone()
        other[:, read:-1] = 5
        changed = dataclasses.replace(batch, source=other)
        after = system.gold(changed, system.forward_tokens(changed, system.knobs()))[0]
        torch.testing.assert_close(after[: i + 1], before[: i + 1], rtol=0, atol=1e-12)


@pytest.mark.parametrize("k", [1, 2, 4])
def test_steps_of_one_are_wait_k(k: int) -> None:
    """INV-7: but the first token, whose position is 0.9 and not 0, sees one more."""
    torch.manual_seed(7)
    system = enliven(GMA(GMAConfig(DIMS, delta=float(k))))
    with torch.no_grad():
        for cross in crosses(system):
            cross.step.weight.zero_()
    batch = pairs([9, 3], [12, 5])
    for stream, source in zip(streamed(system, batch), (9, 3), strict=True):
        expected = [min(i - 1 + k, source) for i in range(1, len(stream.reads) + 1)]
        expected[:2] = [min(k + 1, source)] * 2
        assert stream.reads == expected


def test_delta_is_a_setting_of_inference() -> None:
    torch.manual_seed(8)
    system = enliven(GMA(GMAConfig(DIMS, delta=1.5)))
    assert system.knobs().delta == 1.5
    batch = pairs([12], [8])
    early = streamed(system, batch, delta=0.0)[0].reads
    late = streamed(system, batch, delta=6.0)[0].reads
    assert early[0] == 1
    assert late[0] == 7
    with pytest.raises(UserError, match="delta"):
        system.knobs(delta=-1.0)
    with pytest.raises(UserError, match="delta"):
        build("gma", {"dims": dataclasses.asdict(DIMS), "delta": -0.5})


def test_delta_is_drawn_from_a_range_for_each_batch() -> None:
    """One model for a whole dial, as HMT with its `lower`."""
    system = build("gma", {"dims": dataclasses.asdict(DIMS), "delta": [0.5, 3]})
    assert isinstance(system, GMA)
    batch, draw = pairs([9, 7], [6, 5]), random.Random(1)
    drawn = [system.sample(draw, batch).delta for _ in range(200)]
    assert 0.5 <= min(drawn) < 0.7 and 2.8 < max(drawn) <= 3.0
    assert system.knobs().delta == 1.75
    assert [knobs.delta for knobs in system.validation_knobs()] == [0.5, 1.75, 3.0]
    assert system.doubts(system.knobs(delta=2.0)) == []
    assert "trained range of 0.5 to 3.0" in system.doubts(system.knobs(delta=4.0))[0]
    with pytest.raises(UserError, match="empty range"):
        GMAConfig(DIMS, delta=(2.0, 1.0))
    with pytest.raises(UserError, match="below 0"):
        GMAConfig(DIMS, delta=(-1.0, 1.0))


def test_one_delta_is_the_delta_of_every_batch() -> None:
    system, batch = GMA(GMAConfig(DIMS, delta=2.0)), pairs([9], [6])
    assert system.sample(random.Random(1), batch).delta == 2.0
    assert [knobs.delta for knobs in system.validation_knobs()] == [2.0]
    assert system.doubts(system.knobs(delta=9.0)) == [], "as published, any delta at a price"


def test_positions_learn_from_mean_and_width() -> None:
    """The gradient of the loss reaches both weights of the increments, and is exact."""
    torch.manual_seed(9)
    system = GMA(GMAConfig(DIMS, delta=4.0)).double().eval()
    batch = pairs([9, 7], [6, 5])
    cross: Any = system.transformer.decoder[0].cross
    system.validation_loss(batch).total.sum().backward()
    slope = cross.step.weight.grad[0, 3].item()
    assert cross.hidden.weight.grad.abs().max() > 1e-6
    values = []
    for shift in (1e-5, -2e-5):
        with torch.no_grad():
            cross.step.weight[0, 3] += shift
            values.append(system.validation_loss(batch).total.sum().item())
    assert slope == pytest.approx((values[0] - values[1]) / 2e-5, rel=1e-4)


def test_large_steps_stay_finite() -> None:
    torch.manual_seed(10)
    system = GMA(GMAConfig(DIMS)).eval()
    with torch.no_grad():
        for cross in crosses(system):
            cross.step.weight.mul_(1e4)
    loss = system.validation_loss(pairs([9, 7], [6, 5])).total.sum()
    loss.backward()
    assert loss.isfinite()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in system.parameters())


def test_padding_changes_nothing() -> None:
    torch.manual_seed(11)
    system = enliven(GMA(GMAConfig(DIMS)))
    assert_padding_changes_nothing(system, pairs([7, 4, 9, 1], [6, 8, 5, 1]))
