"""Information transport: what is transported, what it costs, and when enough has been received.

Each test names a bug that was planted and that it was seen to catch.
"""

import dataclasses
import math
import random

import pytest
import torch
from lively import DIMS, cut, enliven, padded_reads, pairs, streamed
from torch import Tensor

from hmt.errors import UserError
from hmt.model.attention import reports_of, split_projections
from hmt.model.passes import Packing, Pass, whole_pass
from hmt.model.rows import Row, Rows, plain_bias
from hmt.systems import build
from hmt.systems.batch import Batch
from hmt.systems.contract import PassOutput
from hmt.systems.itst import (
    ITST,
    ITSTConfig,
    Transport,
    Transported,
    latency_cost,
    received,
    spans,
    transport_losses,
)
from hmt.systems.stream import Plan, Read, Stream, Write
from hmt.text.symbols import EOS


def doubles(values: object) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def system_of(seed: int, **config: float) -> ITST:
    torch.manual_seed(seed)
    return enliven(ITST(ITSTConfig(DIMS, **config)))


def sized(source: int, target: int) -> Batch:
    """One sentence of which only the lengths matter."""
    return pairs([source], [target])


def pass_over(h: Tensor, rows: int, setting: float, is_streaming: bool) -> Pass:
    """All rows of one sentence, which may see all of its encoded source (1, J, D)."""
    i = torch.arange(1, rows + 1)[None]
    places = Rows.of(i, torch.full_like(i, h.shape[1]))
    bias = plain_bias(places, places, h.dtype)
    length = torch.tensor([h.shape[1]])
    return whole_pass(
        places, bias, Packing(1, rows), h, length, setting=setting, is_streaming=is_streaming
    )


def test_transport_is_a_sigmoid_of_the_scaled_product() -> None:
    """Worked: width 4 in two heads, so the product of the whole width is divided by sqrt(2).

    Planted: the scale of the whole width; a softmax instead of the sigmoid.
    """
    layer = Transport(dataclasses.replace(DIMS, width=4, heads=2)).double()
    query = doubles([[[1.0, 0.0, 2.0, -1.0]]])
    keys = doubles([[[1.0, 1.0, 1.0, 1.0], [0.0, 3.0, 0.0, 2.0]]])
    products = 2.0, -2.0
    expected = [1 / (1 + math.exp(-p / math.sqrt(2))) + 1e-4 for p in products]
    assert layer.transport(query, keys)[0, 0].tolist() == pytest.approx(expected)


@pytest.mark.parametrize("setting", [0.6, 1.5, math.inf])
def test_attention_is_multiplied_by_transport_and_normalised(setting: float) -> None:
    """The bias on the scores gives the authors' product, in training only of what is seen.

    Planted: T added to the scores instead of log T; the mask of the threshold left out.
    """
    torch.manual_seed(1)
    layer = enliven(Transport(DIMS))
    h = torch.randn(1, 7, DIMS.width, dtype=torch.float64)
    x = torch.randn(4, DIMS.width, dtype=torch.float64)
    for is_streaming in (False, True):
        at = dataclasses.replace(pass_over(h, 4, setting, is_streaming), is_watched=True)
        source = split_projections(layer.keep(h), DIMS.heads, DIMS.width)
        done = layer(x, source, at, None)
        (report,) = reports_of(Transported, [done.report])
        query, keys = (
            module(value).view(-1, DIMS.heads, DIMS.width // DIMS.heads).transpose(0, 1)
            for module, value in ((layer.query, x), (lambda h: layer.project(h)[..., :16], h[0]))
        )
        scores = query @ keys.transpose(-1, -2) / (DIMS.width / DIMS.heads) ** 0.5  # (H, Q, J)
        seen = at.rows.moment if is_streaming else spans(report.transport, at.setting, at.rows)
        beyond = torch.arange(7) >= seen[0, :, None]
        product = scores.masked_fill(beyond, -math.inf).softmax(-1) * report.transport[0]
        expected = product / product.sum(-1, keepdim=True)
        assert done.weights is not None
        torch.testing.assert_close(done.weights.transpose(0, 1), expected, rtol=0, atol=1e-12)
        assert beyond.any() == (not is_streaming and setting < math.inf)


TRANSPORT = [
    [0.6, 0.3, 0.1, 0.0, 0.0, 0.0],
    [0.1, 0.2, 0.3, 0.3, 0.1, 0.0],
    [0.9, 0.1, 0.0, 0.0, 0.0, 0.0],
    [0.0, 0.0, 0.0, 0.0, 0.2, 0.8],
]


@pytest.mark.parametrize(
    ("threshold", "expected"),
    [
        (0.0, [2, 3, 4, 5]),  # i + 1
        (0.5, [2, 4, 4, 6]),  # the third asks for 2, but the second has seen 4
        (0.8, [3, 5, 5, 6]),
        (math.inf, [6, 6, 6, 6]),
    ],
)
def test_worked_spans(threshold: float, expected: list[int]) -> None:
    """The token that brings the threshold and one more, in order, at least i + 1.

    Planted: no token more; no running maximum; a least span of i.
    """
    i = torch.arange(1, 5)[None]
    rows = Rows.of(i, torch.full_like(i, 6))
    assert spans(doubles([TRANSPORT]), doubles([threshold]), rows)[0].tolist() == expected


def test_worked_latency_and_norm() -> None:
    """J = 4, I = 2, two layers: the diagonal is at 2 and at 4, one token beside it is free.

    Planted: no tolerance of one token; the cost of T instead of the normalised T; the sum over
    layers instead of the mean; the norm without its root.
    """
    batch = sized(4, 2)
    cost = doubles([[0, 0, 0, 1], [2, 1, 0, 0]]) / 8
    torch.testing.assert_close(latency_cost(batch)[0].double(), cost)
    even = [[0.25] * 4, [0.25] * 4]  # sums to one: only latency
    double = [[0.0, 2.0, 0.0, 0.0], [0.0, 2.0, 0.0, 0.0]]  # twice too much, once too far back
    latency, norm = transport_losses(doubles([[even, double]]), batch)
    # even: a quarter of (1 + 2 + 1) / 8; double: all of it at the cost of 1 / 8; then their mean
    assert latency.tolist() == pytest.approx([(1 / 8 + 1 / 8) / 2])
    # double is 1 away from its normalised self in two places
    assert norm.tolist() == pytest.approx([math.sqrt(2)])


def test_losses_ignore_padding() -> None:
    """Planted: information from padding counted; padded target tokens counted."""
    torch.manual_seed(2)
    batch = pairs([6, 3], [2, 5])
    transport = torch.rand(2, 3, 5, 6, dtype=torch.float64)
    together = transport_losses(transport, batch)
    for n, (i, j) in enumerate([(2, 6), (5, 3)]):
        alone = transport_losses(transport[n : n + 1, :, :i, :j], cut(batch, n))
        for part, own in zip(together, alone, strict=True):
            torch.testing.assert_close(part[n : n + 1], own)


def test_the_last_token_read_does_not_count() -> None:
    """Planted: all that is read counted."""
    found = received(doubles([TRANSPORT]), torch.tensor([[1, 3, 6, 6]]))
    assert found[0].tolist() == pytest.approx([0.0, 0.3, 1.0, 0.2])


def test_worked_decision() -> None:
    """The layer that received least decides; at the end of the source nothing has to be enough.

    Planted: the mean of the layers; the first layer alone; `>` instead of `>=`.
    """
    system = ITST(ITSTConfig(DIMS))
    plan = Plan([Row(1, 3)], drops_unless_written=True)
    states = torch.zeros(1, DIMS.width)

    def decision(layers: list[float], **stream: object) -> Read | Write:
        given = [
            Transported(transport=torch.zeros(1, 1, 3), received=doubles([[n]])) for n in layers
        ]
        output = PassOutput(states, lambda: states, [1], given, system.transformer, [])
        own = Stream(0, system.knobs(threshold=0.5), None, read=3, **stream)  # type: ignore[arg-type]
        (decided,) = system.decide([own], [plan], output)
        assert own.states[0][3] == pytest.approx(min(*layers, 0.5) / 0.5 if not stream else 1.0)
        return decided

    assert decision([0.5, 0.9]) == Write(0)
    assert decision([0.9, 0.4]) == Read(4)
    assert decision([0.4, 0.9]) == Read(4)
    assert decision([0.0, 0.1], source=[5, 6, EOS], source_ended=True) == Write(0)


@pytest.mark.parametrize("threshold", [1.2, 1.6])
def test_reads_are_the_least_that_suffice(threshold: float) -> None:
    """By forced passes: at every token's reads enough has been received, one token earlier not.

    Planted: two tokens read at a time.
    """
    system = system_of(3)
    batch = pairs([9, 12, 2, 7, 1], [6, 7, 4, 9, 3])
    streams = streamed(system, batch, slots=3, threshold=threshold)
    reads, knobs = padded_reads(streams), system.knobs(threshold=threshold)

    def least(moments: Tensor) -> Tensor:
        reports = system.forward_tokens(batch, knobs, moments).reported(Transported)
        return torch.stack([report.received for report in reports]).amin(0)

    at_reads = least(reads)
    checked = 0
    for n, stream in enumerate(streams):
        length = int(batch.source_length[n])
        for i, read in enumerate(stream.reads):
            assert at_reads[n, i] >= threshold or read == length
            if read > max([2, *stream.reads[:i]]):
                earlier = reads.clone()
                earlier[n, i] = read - 1
                assert least(earlier)[n, i] < threshold
                checked += 1
    assert checked > 4
    assert len({read for stream in streams for read in stream.reads}) > 4


def test_the_dial_goes_from_two_tokens_to_all() -> None:
    """Planted: a threshold that no knob changes; a first token that waits for three."""
    system = system_of(4)
    batch = pairs([9, 1], [5, 3])
    assert [s.reads for s in streamed(system, batch, threshold=0.0)] == [[2] * 5, [1] * 3]
    assert [s.reads for s in streamed(system, batch, threshold=99.0)] == [[9] * 5, [1] * 3]


def test_training_sees_nothing_beyond_the_spans() -> None:
    """What follows the spans of all layers so far changes no loss of the rows so far.

    Planted: no mask in training; spans that count from the end.
    """
    system, batch = system_of(5), pairs([14], [6])
    knobs = system.knobs(threshold=0.5)
    done = system.forward_tokens(batch, knobs)
    before = system.gold(batch, done)[0]
    i = torch.arange(1, 7)[None]
    rows, setting = Rows.of(i, torch.full_like(i, 14)), doubles([0.5])
    layers = [spans(r.transport, setting, rows)[0] for r in done.reported(Transported)]
    seen = torch.stack(layers).amax(0).tolist()
    assert seen[2] < 12
    for row, span in enumerate(seen):
        other = batch.source.clone()
        other[:, span:-1] = 5
        changed = dataclasses.replace(batch, source=other)
        after = system.gold(changed, system.forward_tokens(changed, knobs))[0]
        torch.testing.assert_close(after[: row + 1], before[: row + 1], rtol=0, atol=1e-12)


def test_training_draws_its_whole_dial() -> None:
    """Thresholds between the lowest and 1, a tenth of the batches without one.

    Planted: the same threshold for every draw; no batch that sees the whole source.
    """
    system = system_of(6, lowest=0.3)
    draw, batch = random.Random(1), pairs([4], [4])
    drawn = [system.sample(draw, batch).threshold for _ in range(2000)]
    bounded = [threshold for threshold in drawn if threshold < math.inf]
    assert 0.08 < 1 - len(bounded) / len(drawn) < 0.12
    assert 0.3 <= min(bounded) < 0.31 and 0.99 < max(bounded) <= 1.0
    assert sum(bounded) / len(bounded) == pytest.approx(0.65, abs=0.02)
    assert [knobs.threshold for knobs in system.validation_knobs()] == [0.3, 0.65, 1.0]


def test_what_is_shown_of_a_sentence_has_its_size() -> None:
    """Planted: padding shown."""
    system, batch = system_of(7), pairs([6, 3], [2, 5])
    shown = [rows["transport"] for rows in system.inspect(batch, system.knobs())]
    assert [(len(rows), len(rows[0])) for rows in shown] == [(2, 6), (5, 3)]


@pytest.mark.parametrize("wrong", [{"lowest": -0.1}, {"lowest": 1.5}, {"whole_share": 2.0}])
def test_a_wrong_setting_of_training_is_named(wrong: dict[str, float]) -> None:
    with pytest.raises(UserError, match=f"{next(iter(wrong))} = .*from 0 to 1"):
        build("itst", {"dims": dataclasses.asdict(DIMS), **wrong})


def test_a_wrong_threshold_is_named() -> None:
    with pytest.raises(UserError, match=r"threshold = -0\.5"):
        system_of(8).knobs(threshold=-0.5)
