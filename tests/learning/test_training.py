"""Recipes, batches, the optimizer and the loop: what each promises, and what each refuses."""

import dataclasses
import json
import logging
import math
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import training_runs as tiny
from conftest import ROOT
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch import nn

import hmt
from hmt.errors import UserError
from hmt.metrics.scores import score
from hmt.models.directory import load_system, read_config
from hmt.models.weights import average
from hmt.plain import from_plain
from hmt.systems import SYSTEMS
from hmt.systems.contract import System
from hmt.text.corpus import Corpus
from hmt.training import average_models, load_recipe, parse_recipe, train
from hmt.training.batches import BatchStream, collate, micro_batches, mix, plan_epoch, share
from hmt.training.checkpoint import Position
from hmt.training.learner import Learner
from hmt.training.optimizer import Optimizer, learning_rate
from hmt.training.processes import Group
from hmt.training.recipe import Training
from hmt.training.train import Progress
from hmt.training.validation import note_best

ALONE = Group(0, 1, torch.device("cpu"))
TABLE: dict[str, Any] = {
    "output": "runs/x",
    "data": {"directory": "d"},
    "model": {"system": "hmt", "config": {"states": 4, "dims": {"width": 8}}},
    "training": {"updates": 10},
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.prepare_toy(tmp_path_factory.mktemp("toy"))


# ---- recipes


def write_recipe(folder: Path, text: str) -> Path:
    path = folder / "recipe.toml"
    path.write_text(text)
    return path


RECIPE = """
output = "runs/x"
data.directory = "d"
[model]
system = "hmt"
config.dims.width = 8
[training]
updates = 10
betas = [0.9, 0.98]
"""


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ("[trainin]\nupdates = 1", r'"trainin" is unknown; allowed are .*training, stage'),
        ("clipp = 1", r'"training\.clipp" is unknown; .*accumulate.*clip'),
        ("updates = 1", "not valid"),
        ("batch_tokens = 1.5", r'"training\.batch_tokens" is 1\.5; it must be a whole number'),
        ("batch_tokens = true", r'"training\.batch_tokens" is true; it must be a whole number'),
        ("compile = 1", r'"training\.compile" is 1; it must be true or false'),
        ("clip = -1", r"training\.clip = -1\.0 is too small"),
        ('precision = "fp8"', r"fp32, bf16, fp16"),
        ('decay = "cosine"', r"sqrt, linear"),
        ("learning_rate = 0", r"learning_rate = 0\.0 must be above 0"),
        ("learning_rate = nan", r'learning_rate" is nan; it must be a number, finite and'),
        ("learning_rate = inf", r'learning_rate" is inf; it must be a number, finite and'),
        ("tensorboard = 'no'", r'tensorboard" is "no"; it must be true or false'),
        ("average_last = 9", r"average_last = 9.*keep = 5"),
        ("patience = 2", r"patience needs training\.validate_every"),
        ("[[stage]]\nmodel.sistem = 1", r'"model\.sistem" is unknown'),
        ('[[stage]]\nmodel.languages = ["German", "English"]', 'language "German" is not a code'),
        ('[[stage]]\nmodel.languages = ["de"]', r'is \["de"\]; it must be a list of 2 texts'),
        ("[[stage]]\nmodel.models = [3]", r'"model\.models" is \[3\]; it must be a list of texts'),
        ("[[stage]]\nupdates = 1", r'"stage\.1\.updates" is unknown; allowed are model, training'),
        ("[[stage]]\n[[stage]]\ntraining.warm_start = 'x'", "Only the first stage"),
        ("[stage]\nmodel.system = 'x'", r"\[\[stage\]\]"),
    ],
)
def test_a_mistake_in_a_recipe_is_named(tmp_path: Path, extra: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        load_recipe(write_recipe(tmp_path, RECIPE + extra))


def test_a_recipe_lacks_what_it_must_have(tmp_path: Path) -> None:
    with pytest.raises(
        UserError, match=r'"training\.updates" is missing; .*--set training\.updates='
    ):
        parse_recipe({**TABLE, "training": {}})
    with pytest.raises(UserError, match=r'"output" is missing; .*--set output='):
        parse_recipe({key: TABLE[key] for key in TABLE if key != "output"})
    with pytest.raises(UserError, match="cannot be read"):
        load_recipe(tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("override", "value"),
    [
        ("training.updates=7", lambda r: r.stages[0].training.updates == 7),
        ("training.clip=1", lambda r: r.stages[0].training.clip == 1.0),
        ("training.betas=[0.8, 0.9]", lambda r: r.stages[0].training.betas == (0.8, 0.9)),
        ("training.compile=true", lambda r: r.stages[0].training.compile is True),
        ("model.config.lower=[1,6]", lambda r: r.stages[0].model.config["lower"] == [1, 6]),
        ("output=runs/a=b", lambda r: r.output == "runs/a=b"),
        ('output="12"', lambda r: r.output == "12"),
        ("seed=3", lambda r: r.seed == 3),
    ],
)
def test_overrides_are_toml_values(tmp_path: Path, override: str, value: Any) -> None:
    assert value(load_recipe(write_recipe(tmp_path, RECIPE), [override]))


@pytest.mark.parametrize(
    "override",
    ["updates", "=3", "training.=3", "training.updates=[", "training.updates=many", "a.b=1",
     "output.x=1", "stage.3.training.updates=1", "training.updates=", "output=a\nseed=9"],
)  # fmt: skip
def test_a_wrong_override_is_refused(tmp_path: Path, override: str) -> None:
    with pytest.raises(UserError):
        load_recipe(write_recipe(tmp_path, RECIPE), [override])


@pytest.mark.parametrize("stage", ["0", "3", "²", "x"])
def test_a_stage_that_is_not_there_cannot_be_set(tmp_path: Path, stage: str) -> None:
    """Planted bug: ² is taken for a digit, and for a number."""
    path = write_recipe(tmp_path, RECIPE + "\n[[stage]]\n[[stage]]\n")
    assert len(load_recipe(path, ["stage.2.training.updates=7"]).stages) == 2
    with pytest.raises(UserError, match=f"there is no stage {stage}; this recipe has 1 to 2"):
        load_recipe(path, [f"stage.{stage}.training.updates=7"])


def test_stages_are_laid_over_the_recipe() -> None:
    stage = [
        {"training": {"updates": 3}},
        {"model": {"config": {"dims": {"dropout": 0.5}}}},
        {"model": {"system": "other", "config": {"k": 1}}},
    ]
    training = {**TABLE["training"], "warm_start": "w"}
    first, second, third = parse_recipe({**TABLE, "training": training, "stage": stage}).stages
    assert (first.training.updates, second.training.updates) == (3, 10)
    assert (first.training.warm_start, second.training.warm_start) == ("w", "")
    assert second.model.config == {"states": 4, "dims": {"width": 8, "dropout": 0.5}}
    # another system takes over the sizes of the network, not the settings of the first
    assert third.model.config == {"k": 1, "dims": {"width": 8}}


def test_a_resolved_recipe_reads_back_as_itself(tmp_path: Path) -> None:
    recipe = parse_recipe({**TABLE, "stage": [{}, {"training": {"updates": 3}}]})
    path = tmp_path / "recipe.json"
    path.write_text(json.dumps({"recipe": recipe.as_dict()}))
    assert load_recipe(path) == recipe


RECIPES = sorted((ROOT / "recipes").rglob("*.toml"))


@pytest.mark.parametrize("path", RECIPES, ids=lambda p: p.relative_to(ROOT / "recipes").as_posix())
def test_shipped_recipes_parse_and_say_how_to_run_them(path: Path) -> None:
    recipe = load_recipe(path)
    assert f"hmt train recipes/{path.relative_to(ROOT / 'recipes').as_posix()}" in path.read_text()
    for stage in recipe.stages:
        sizes = {"source_vocabulary": 100, "target_vocabulary": 100}
        config = {**stage.model.config, "dims": {**stage.model.config.get("dims", {}), **sizes}}
        from_plain(SYSTEMS[stage.model.system].Config, config, "model.config")


def test_there_are_recipes() -> None:
    assert len(RECIPES) >= 5


# ---- batches


class Lengths:
    """A corpus of which only the lengths matter; tokens are the sentence's own number."""

    def __init__(self, source: Any, target: Any):
        self.source_lengths = np.asarray(source, dtype=np.int32)
        self.target_lengths = np.asarray(target, dtype=np.int32)

    def __len__(self) -> int:
        return len(self.source_lengths)

    def source(self, n: int) -> Any:
        return np.full(self.source_lengths[n], n + 10)

    def target(self, n: int) -> Any:
        return np.full(self.target_lengths[n], n + 11)


def natural(count: int, seed: int = 0) -> Lengths:
    """Lengths as text has them: long tail, source and target alike but not equal."""
    draw = np.random.default_rng(seed)
    target = np.clip(draw.lognormal(2.7, 0.5, count), 2, 100)
    source = np.clip(target * draw.normal(1, 0.2, count), 2, 100)
    return Lengths(source, target)


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), min_size=1, max_size=80),
    limit=st.integers(30, 90),
    epoch=st.integers(0, 3),
)
def test_every_sentence_once_within_the_limit(lengths: Any, limit: int, epoch: int) -> None:
    corpus = Lengths(*zip(*lengths, strict=True))
    plan = plan_epoch(corpus, limit, 7, epoch)
    seen = np.concatenate([plan[n] for n in range(len(plan))])
    assert sorted(seen.tolist()) == list(range(len(lengths)))
    for n in range(len(plan)):
        assert corpus.source_lengths[plan[n]].sum() <= limit
        assert corpus.target_lengths[plan[n]].sum() <= limit


def test_batches_are_full_and_of_all_lengths() -> None:
    """Batches of one length were seen to cost half a BLEU."""
    corpus = natural(20_000)
    plan = plan_epoch(corpus, 840, 1, 0)
    assert len(plan) < 1.1 * corpus.target_lengths.sum() / 840
    spread = [np.std(corpus.target_lengths[plan[n]]) for n in range(len(plan) - 1)]
    assert np.median(spread) > 0.7 * np.std(corpus.target_lengths)


def test_parts_of_a_batch_hold_little_padding() -> None:
    corpus = natural(20_000)
    plan = plan_epoch(corpus, 840, 1, 0)
    shares = []
    for n in range(100):
        parts = micro_batches(corpus, plan[n])
        assert sorted(np.concatenate(parts).tolist()) == sorted(plan[n].tolist())
        sides = corpus.source_lengths, corpus.target_lengths
        padded = sum(len(part) * side[part].max() for part in parts for side in sides)
        shares.append(1 - sum(side[plan[n]].sum() for side in sides) / padded)
    assert np.mean(shares) < 0.25 and max(shares) < 0.4


def test_epochs_differ_in_order_and_in_company() -> None:
    corpus = natural(3000)
    plans = [plan_epoch(corpus, 400, 1, epoch) for epoch in (0, 0, 1)]
    company = [{frozenset(p[n].tolist()) for n in range(len(p))} for p in plans]
    assert all(np.array_equal(plans[0][n], plans[1][n]) for n in range(len(plans[0])))
    assert len(company[0] & company[2]) < 0.05 * len(company[0])


def test_the_stream_goes_on_from_any_position() -> None:
    corpus = natural(200)
    stream = BatchStream(corpus, 200, 3)
    expected, places = [], []
    for _ in range(3 * len(stream.plan)):
        places.append((stream.epoch, stream.batch))
        expected.append(stream.take(1)[0])
    assert places[-1][0] >= 2
    for at in (0, 1, len(expected) // 2, len(expected) - 2):
        again = BatchStream(corpus, 200, 3, *places[at])
        for batch in expected[at:]:
            assert np.array_equal(again.take(1)[0], batch)


@pytest.mark.parametrize("count", [1, 2, 5, 8])
def test_shares_divide_a_batch(count: int) -> None:
    sentences = np.arange(count) + 20
    shares = [share(sentences, rank, 3) for rank in range(3)]
    real = np.concatenate([own for own, weight in shares if weight])
    assert sorted(real.tolist()) == sentences.tolist()
    assert all(len(own) for own, _ in shares)


def test_a_share_is_padded_like_the_whole() -> None:
    corpus = Lengths([3, 7, 2], [4, 2, 9])
    batch = collate(corpus, np.array([2, 0]), torch.device("cpu"), np.arange(3))
    assert batch.source.tolist() == [[12, 12, 1, 1, 1, 1, 1], [10, 10, 10, 1, 1, 1, 1]]
    assert batch.target.shape == (2, 9)
    assert batch.source_length.tolist() == [2, 3]
    assert batch.target_length.tolist() == [9, 4]


def test_seeds_of_neighbours_are_unrelated() -> None:
    seeds = [mix(seed, step) for seed in range(20) for step in range(20)]
    assert len(set(seeds)) == 400
    assert mix(1, 23) != mix(12, 3)
    bits = Counter(bit for seed in seeds for bit in range(63) if seed >> bit & 1)
    assert all(120 < bits[bit] < 280 for bit in range(63))


# ---- optimizer


def test_the_schedule_warms_up_and_decays() -> None:
    training = Training(updates=1, learning_rate=5e-4, warmup=4000, warmup_init=1e-7)
    assert learning_rate(training, 1) == 1e-7
    assert learning_rate(training, 2001) == pytest.approx(1e-7 + (5e-4 - 1e-7) / 2)
    assert learning_rate(training, 4001) == 5e-4
    assert learning_rate(training, 16001) == pytest.approx(2.5e-4)
    assert learning_rate(Training(updates=1, learning_rate=1.0, warmup=0), 1) == 1.0


def test_a_linear_schedule_ends_at_zero() -> None:
    """Planted bug: counted from the first update, so that the rate jumps after the warm-up."""
    training = Training(updates=500, learning_rate=1e-3, warmup=100, decay="linear")
    rates = [learning_rate(training, step) for step in (101, 201, 301, 500, 501)]
    assert rates == pytest.approx([1e-3, 7.5e-4, 5e-4, 2.5e-6, 0])
    assert learning_rate(training, 51) == pytest.approx(5e-4, rel=1e-3)
    assert learning_rate(Training(updates=5, warmup=5, decay="linear"), 5) > 0


def test_adam_decays_weights_apart_from_the_gradient() -> None:
    """Against the equations, over several steps: p <- p - lr wd p - lr m / (sqrt(v) + eps)."""
    torch.manual_seed(0)
    weight = nn.Parameter(torch.randn(3, 2))
    training = Training(updates=9, learning_rate=0.1, warmup=2, weight_decay=0.05)
    optimizer = Optimizer([weight], training, ALONE)
    expected = weight.detach().double().clone()
    m, v = torch.zeros(()), torch.zeros(())
    for step in range(1, 6):
        optimizer.clear()
        optimizer.backward((weight**3).sum() * step)
        optimizer.gather()
        rate = optimizer.step(step)
        assert rate == learning_rate(training, step)
        gradient = 3 * expected**2 * step
        m, v = 0.9 * m + 0.1 * gradient, 0.98 * v + 0.02 * gradient**2
        corrected = (m / (1 - 0.9**step)) / ((v / (1 - 0.98**step)) ** 0.5 + 1e-8)
        expected = expected * (1 - rate * 0.05) - rate * corrected
        torch.testing.assert_close(weight.double(), expected, rtol=1e-4, atol=1e-6)


def test_gradients_stay_in_one_buffer_and_are_clipped() -> None:
    layers = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4))
    optimizer = Optimizer(layers.parameters(), Training(updates=1, clip=0.5), ALONE)
    for step in range(1, 4):
        optimizer.clear()
        optimizer.backward(layers[:2](torch.randn(9, 4)).pow(2).sum())  # the last one is not used
        before = torch.cat([p.grad.flatten() for p in layers.parameters() if p.grad is not None])
        norm = optimizer.gather()
        assert norm == pytest.approx(float(before.norm()), rel=1e-5)
        assert norm > 0.5
        assert float(optimizer.gradient.norm()) == pytest.approx(0.5, rel=1e-5)
        inside = optimizer.gradient.untyped_storage().data_ptr()
        for p in layers.parameters():
            assert p.grad is not None
            assert p.grad.untyped_storage().data_ptr() == inside
        optimizer.step(step)


def test_muon_makes_the_update_of_each_stacked_matrix_orthogonal() -> None:
    """Planted bugs: orthogonal as one matrix instead of three; not scaled as AdamW's updates."""
    torch.manual_seed(0)
    layer = nn.Linear(8, 24)
    before, bias = layer.weight.detach().clone(), layer.bias.detach().clone()
    training = Training(updates=9, learning_rate=0.1, warmup=0, optimizer="muon")
    optimizer = Optimizer(layer.parameters(), training, ALONE, [(layer.get_parameter("weight"), 3)])
    optimizer.backward((layer(torch.randn(50, 8)) * torch.linspace(0.5, 2, 24)).pow(2).sum())
    optimizer.gather()
    optimizer.step(1)
    for change in ((before - layer.weight.detach()) / 0.1).view(3, 8, 8):
        singular = torch.linalg.svdvals(change)
        assert 0.6 < float(singular.min() / (0.2 * 8**0.5)) < 1.3  # five steps come close to 1
        assert 0.6 < float(singular.max() / (0.2 * 8**0.5)) < 1.3
        assert float(change.pow(2).mean().sqrt()) == pytest.approx(0.2, rel=0.2)
    # AdamW updates what Muon does not: by the rate in its first step
    torch.testing.assert_close((layer.bias.detach() - bias).abs(), torch.full((24,), 0.1))


# ---- the loop


def test_training_learns_and_leaves_a_model(data: Path, tmp_path: Path) -> None:
    output = tmp_path / "run"
    seen: list[Progress] = []
    recipe = tiny.recipe(data, output, updates=150, save_every=50, keep=2, average_last=2)
    result = train(recipe, report=seen.append)
    assert (result.is_finished, result.step, result.signal) == (True, 150, None)
    records = tiny.log(output)
    assert [record["step"] for record in records] == list(range(3, 151, 3))
    assert records[-1]["loss"] < 0.75 * records[0]["loss"]
    for record in records:
        whole = record["hmm"] + record["latency"] + record["state"]
        assert record["loss"] == pytest.approx(whole, rel=1e-5)
        assert record["tokens_per_second"] > 0
    assert [p.step for p in seen] == list(range(1, 151))
    assert seen[-1].updates == 150
    assert seen[-1].seconds_left == 0

    # the directory alone makes the model, and says what its weights are
    system, config = load_system(output)
    assert config.facts["weights"] == "average"
    assert config.facts["steps"] == [100, 150]
    snapshots = [load_file(p) for p in sorted((output / "training" / "snapshots").iterdir())]
    for name, tensor in system.state_dict().items():
        if name in snapshots[0]:
            mean = (snapshots[0][name].double() + snapshots[1][name].double()) / 2
            assert torch.equal(tensor, mean.float()), name
    told = json.loads((output / "training" / "recipe.json").read_text())
    assert parse_recipe(told["recipe"]) == recipe
    assert told["seed"] == 5
    assert {"torch", "python", "hmt"} <= told["versions"].keys()
    assert "average of the snapshots" in (output / "README.md").read_text()
    assert (output / "model.safetensors").stat().st_mode & 0o444 == 0o444


def test_rotation_keeps_the_last(data: Path, tmp_path: Path) -> None:
    train(tiny.recipe(data, tmp_path, updates=22, save_every=3, keep=4, average_last=1))
    names = sorted(p.name for p in (tmp_path / "training" / "snapshots").iterdir())
    assert names == [f"stage1-step{step:09d}.safetensors" for step in (15, 18, 21, 22)]
    last = load_file(tmp_path / "training" / "snapshots" / names[-1])
    model = load_file(tmp_path / "model.safetensors")
    assert all(torch.equal(model[name], last[name]) for name in last)


def test_accumulation_is_a_larger_batch(data: Path, tmp_path: Path) -> None:
    """Two batches per update: their losses are summed and divided by the tokens of both."""
    model = {**tiny.MODEL, "config": {**tiny.MODEL["config"], "lower": 2}}
    model["config"]["dims"] = {**model["config"]["dims"], "dropout": 0.0}
    train(tiny.recipe(data, tmp_path / "a", model=model, updates=3, accumulate=2, log_every=1))
    train(tiny.recipe(data, tmp_path / "b", model=model, updates=1, log_every=1))
    first, single = tiny.log(tmp_path / "a")[0], tiny.log(tmp_path / "b")[0]
    assert first["epoch"] == pytest.approx(2 * single["epoch"])
    assert first["loss"] != single["loss"]
    assert first["loss"] == pytest.approx(single["loss"], rel=0.2)
    assert first["gradient_norm"] < 1.5 * single["gradient_norm"]


def test_bf16_trains(data: Path, tmp_path: Path) -> None:
    train(tiny.recipe(data, tmp_path, updates=60, precision="bf16"))
    records = tiny.log(tmp_path)
    assert records[-1]["loss"] < 0.9 * records[0]["loss"]
    with pytest.raises(UserError, match=r"fp16.*needs a GPU"):
        train(tiny.recipe(data, tmp_path / "half", precision="fp16"))


def test_a_loss_that_is_not_finite_stops_the_run(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The step, the batch and the guilty pair are named; the state before it stays."""
    step = 0
    update, loss = Learner.update, System.training_loss

    def counted(self: Learner, number: int, *arguments: Any) -> Any:
        nonlocal step
        step = number
        return update(self, number, *arguments)

    def broken(self: System, *arguments: Any) -> Any:
        found = loss(self, *arguments)
        if step == 11:
            found.total[-1] = found.total[-1] * math.inf
        return found

    monkeypatch.setattr(Learner, "update", counted)
    monkeypatch.setattr(System, "training_loss", broken)
    with pytest.raises(UserError, match=r"loss of update 11 is not finite \(epoch \d.*pairs \d+"):
        train(tiny.recipe(data, tmp_path))
    for tensor in load_file(tmp_path / "model.safetensors").values():
        assert tensor.isfinite().all()
    monkeypatch.undo()
    steps = []
    assert train(tiny.recipe(data, tmp_path), report=lambda p: steps.append(p.step)).is_finished
    assert steps[0] == 9


def test_validation_measures_what_the_model_will_do(data: Path, tmp_path: Path) -> None:
    """BLEU, chrF and AL are those of the saved model, streaming with the recipe's own settings.

    Planted: dropout left on; the system's default settings in the place of the recipe's; other
    sentences than those spread over the split.
    """
    model = {**tiny.MODEL, "knobs": {"lower": 3, "threshold": 0.8}}
    options = {"updates": 60, "average_last": 1, "validate_every": 30, "validation_sentences": 4}
    train(tiny.recipe(data, tmp_path, model=model, **options))
    first, last = tiny.log(tmp_path, "valid")
    assert last["loss"] < first["loss"]
    assert {"hmm", "latency", "state", "AL", "bleu", "chrf"} <= last.keys()

    loaded = hmt.load(tmp_path)
    valid, chosen = Corpus.open(data, "valid"), [0, 5, 10, 15]
    sources = [loaded.source_tokenizer.decode(valid.source(n).tolist()) for n in chosen]
    records = [
        dataclasses.replace(r, reference=loaded.target_tokenizer.decode(valid.target(n).tolist()))
        for n, r in zip(chosen, loaded.translate(sources), strict=True)
    ]
    point = score(records, resamples=0)
    assert last["AL"] == pytest.approx(point["latency"]["token"]["AL"], rel=1e-6)
    assert last["chrf"] == pytest.approx(point["quality"]["chrf"], rel=1e-6) != 0
    assert last["bleu"] == pytest.approx(point["quality"]["bleu"], rel=1e-6)
    every = np.arange(len(valid))
    batch = collate(valid, every, torch.device("cpu"), every)
    with torch.no_grad():
        loss = load_system(tmp_path)[0].eval().validation_loss(batch).total.sum()
    assert last["loss"] == pytest.approx(float(loss) / valid.target_lengths.sum(), rel=1e-5)


def test_patience_ends_the_stage(data: Path, tmp_path: Path) -> None:
    """A model that does not learn has the same chrF at every validation."""
    options = {"validate_every": 5, "validation_sentences": 4, "patience": 2, "metric": "chrf"}
    options |= {"learning_rate": 1e-12, "warmup_init": 0.0, "weight_decay": 0.0}
    result = train(tiny.recipe(data, tmp_path, **options))
    assert (result.is_finished, result.step) == (True, 15)
    assert len({record["chrf"] for record in tiny.log(tmp_path, "valid")}) == 1
    # more patience lets the same run go on
    assert train(tiny.recipe(data, tmp_path, **{**options, "patience": 9})).step == 24


@pytest.mark.parametrize(
    ("metric", "stale"), [("loss", 1), ("bleu", 0), ("chrf", 0), ("bleu_tokenised_lc", 0)]
)
def test_more_quality_and_less_loss_are_better(metric: str, stale: int) -> None:
    training = Training(updates=9, validate_every=1, patience=3, metric=metric)
    position = Position()
    for value in (1.0, 2.0):
        note_best(position, training, {metric: value})
    assert position.stale == stale


def test_patience_needs_a_metric_that_exists(data: Path, tmp_path: Path) -> None:
    options = {"validate_every": 2, "patience": 2, "metric": "blue"}
    with pytest.raises(UserError, match=r'metric = "blue".*loss, hmm, latency, state'):
        train(tiny.recipe(data, tmp_path, **options))


def test_warm_start_takes_what_has_the_same_name(
    data: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    train(tiny.recipe(data, tmp_path / "old", updates=4, average_last=1))
    weights = load_file(tmp_path / "old" / "model.safetensors")
    missing = next(name for name in weights if name.startswith("selection"))
    del weights[missing]
    weights["experts"] = torch.zeros(2)
    save_file(weights, tmp_path / "partial.safetensors")
    still = {"updates": 1, "learning_rate": 1e-12, "warmup_init": 0.0, "weight_decay": 0.0}
    with caplog.at_level(logging.INFO):
        train(tiny.recipe(data, tmp_path / "new", warm_start=str(tmp_path / "partial.safetensors"),
                          **still))  # fmt: skip
    assert f"newly initialised: {missing}; not used: experts." in caplog.text
    new = load_file(tmp_path / "new" / "model.safetensors")
    assert all(torch.equal(new[name], weights[name]) for name in new if name != missing)
    assert new[missing].abs().sum() > 0


def test_warm_start_refuses_what_does_not_fit(data: Path, tmp_path: Path) -> None:
    train(tiny.recipe(data, tmp_path / "old", updates=1, average_last=1))
    wide = {"dims": {**tiny.DIMS, "width": 32, "share_embeddings": False}}
    model = {"system": "hmt", "config": wide}
    with pytest.raises(UserError, match="have the shape"):
        train(tiny.recipe(data, tmp_path / "a", model=model, warm_start=str(tmp_path / "old")))
    save_file({"x": torch.zeros(1)}, tmp_path / "x.safetensors")
    with pytest.raises(UserError, match="no weights in common"):
        train(tiny.recipe(data, tmp_path / "b", warm_start=str(tmp_path / "x.safetensors")))
    with pytest.raises(UserError, match="no weights at"):
        train(tiny.recipe(data, tmp_path / "c", warm_start=str(tmp_path / "none")))
    tokenizer = tmp_path / "old" / "target.tokenizer.json"
    tokenizer.write_text(tokenizer.read_text() + " ")
    with pytest.raises(UserError, match="another tokenizer"):
        train(tiny.recipe(data, tmp_path / "d", warm_start=str(tmp_path / "old")))


def test_a_stage_starts_from_the_one_before(data: Path, tmp_path: Path) -> None:
    """The second stage is another model; what it shares with the first is the first's average."""
    config = {"config": {"states": 5}}
    still = {"updates": 1, "learning_rate": 1e-12, "warmup_init": 0.0, "weight_decay": 0.0}
    train(tiny.recipe(data, tmp_path / "one"))
    stage = [{}, {"model": config, "training": still}]
    result = train(tiny.recipe(data, tmp_path / "two", stage=stage))
    assert result.step == 25
    one, two = (load_file(tmp_path / name / "model.safetensors") for name in ("one", "two"))
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert load_system(tmp_path / "two")[1].config["states"] == 5


def test_a_mistake_in_a_later_stage_is_found_at_once(data: Path, tmp_path: Path) -> None:
    stage = [{}, {"model": {"config": {"stats": 5}}}]
    with pytest.raises(UserError, match="stats"):
        train(tiny.recipe(data, tmp_path / "run", stage=stage))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({"system": "nmt"}, "nmt"),
        ({"system": "hmt", "config": {"dims": {"source_vocabulary": 7}}}, "leave it out"),
        ({**tiny.MODEL, "knobs": {"lowr": 3}}, "lowr"),
    ],
)
def test_a_wrong_model_is_refused(data: Path, tmp_path: Path, model: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        train(tiny.recipe(data, tmp_path / "run", model=model))
    assert not (tmp_path / "run").exists()


def test_a_sentence_longer_than_a_batch_is_refused(data: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"longest sentence has \d+ tokens.*batch_tokens = 5"):
        train(tiny.recipe(data, tmp_path / "run", batch_tokens=5))


def test_knobs_of_the_recipe_become_the_models_defaults(data: Path, tmp_path: Path) -> None:
    model = {**tiny.MODEL, "knobs": {"lower": 1, "threshold": 0.25}}
    train(tiny.recipe(data, tmp_path, model=model, updates=1))
    knobs = load_system(tmp_path)[1].knobs
    assert (knobs["lower"], knobs["threshold"], knobs["states"]) == (1, 0.25, 3)


def test_tensorboard_gets_the_same_figures(data: Path, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    train(tiny.recipe(data, tmp_path, updates=6, tensorboard=True))
    board = EventAccumulator(str(tmp_path / "training" / "tensorboard")).Reload()
    shown = [(event.step, event.value) for event in board.Scalars("train/loss")]
    logged = [(record["step"], record["loss"]) for record in tiny.log(tmp_path)]
    assert shown == [(step, pytest.approx(loss)) for step, loss in logged]


# ---- averaging


def test_average_is_the_mean_in_double_precision(tmp_path: Path) -> None:
    torch.manual_seed(0)
    made = [torch.randn(50) * 10**n for n in range(5)]
    paths = [tmp_path / f"{n}.safetensors" for n in range(5)]
    for path, tensor in zip(paths, made, strict=True):
        save_file({"w": tensor, "h": tensor.half()}, path)
    mean = average(paths)
    assert torch.equal(mean["w"], (torch.stack(made).double().sum(0) / 5).float())
    assert mean["h"].dtype == torch.float16


def test_average_of_a_run_and_its_mistakes(data: Path, tmp_path: Path) -> None:
    """What names a run stays a name: no path of it goes into the model."""
    about = {**tiny.MODEL, "languages": ["de", "en"], "avoids_loops": True, "end_penalty": 1.5}
    run = tmp_path / "run"
    train(tiny.recipe(data, run, model=about, average_last=1))
    names = average_models([run], tmp_path / "mean", 3)
    assert names == [f"stage1-step{step:09d}" for step in (16, 20, 24)]
    snapshots = [run / "training" / "snapshots" / f"{name}.safetensors" for name in names]
    expected, found = average(snapshots), load_file(tmp_path / "mean" / "model.safetensors")
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    config = read_config(tmp_path / "mean")
    assert config.facts["averaged"] == names
    assert config.facts["steps"] == [16, 20, 24]
    assert (config.languages, config.avoids_loops) == (("de", "en"), True)
    assert config.end_penalty == 1.5
    assert config.knobs == read_config(run).knobs
    card = (tmp_path / "mean" / "README.md").read_text()
    assert "from de to en" in card and f"hmt translate {tmp_path / 'mean'}\n" in card
    assert str(run) not in card + (tmp_path / "mean" / "config.json").read_text()

    average_models([run, tmp_path / "mean"], tmp_path / "both", 3, is_half=True)
    assert read_config(tmp_path / "both").facts["averaged"] == ["run", "mean"]
    halves = load_file(tmp_path / "both" / "model.safetensors").values()
    assert {tensor.dtype for tensor in halves} == {torch.float16}

    for paths, last, message in (
        ([run], 9, "has 3 snapshots, not 9"),
        ([tmp_path / "mean"], 1, "has 0 snapshots"),
        ([run, tmp_path], 1, "not a model directory"),
    ):
        with pytest.raises(UserError, match=message):
            average_models(paths, tmp_path / "no", last)
    with pytest.raises(UserError, match="not an empty directory"):
        average_models([run], tmp_path / "mean", 3)
    save_file({"x": torch.zeros(1)}, tmp_path / "x.safetensors")
    with pytest.raises(UserError, match="not the same model"):
        average([*snapshots, tmp_path / "x.safetensors"])
    (tmp_path / "y.safetensors").write_text("no")
    with pytest.raises(UserError, match="not a readable"):
        average([tmp_path / "y.safetensors"])


# ---- several processes

# Threads of the group that are left over abort the process as Python exits, if they are unlucky.
SCRIPT = """
import sys
from pathlib import Path
from hmt.training import load_recipe, train
train(load_recipe(sys.argv[1]))
names = [name.read_text() for name in Path("/proc/self/task").glob("*/comm")]
assert not any("gloo" in name for name in names), names
"""


def test_two_processes_learn_what_one_does(data: Path, tmp_path: Path) -> None:
    """Sampled lower boundaries, accumulation, batches of one sentence, validation, two stages."""
    dims = {**tiny.DIMS, "share_embeddings": False, "dropout": 0.0}
    model = {"system": "hmt", "config": {"lower": [1, 4], "states": 3, "dims": dims}}
    options: dict[str, Any] = {"updates": 12, "batch_tokens": 16, "accumulate": 2, "log_every": 1}
    options |= {"validate_every": 6, "model": model, "clip": 1.0}
    options |= {"stage": [{}, {"training": {"updates": 4}}]}
    train(tiny.recipe(data, tmp_path / "one", **options))

    told = {"recipe": tiny.recipe(data, tmp_path / "two", **options).as_dict()}
    (tmp_path / "recipe.json").write_text(json.dumps(told))
    (tmp_path / "script.py").write_text(SCRIPT)
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    done = subprocess.run(
        [*launch, str(tmp_path / "script.py"), str(tmp_path / "recipe.json")],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    for kind in ("train", "valid"):
        one, two = tiny.log(tmp_path / "one", kind), tiny.log(tmp_path / "two", kind)
        assert len(one) == len(two) == {"train": 16, "valid": 2}[kind]
        for mine, theirs in zip(one, two, strict=True):
            for name in mine.keys() - {"tokens_per_second", "seconds_left", "kind"}:
                assert mine[name] == pytest.approx(theirs[name], rel=2e-5, abs=2e-6), (name, mine)
