"""Adaptive wait-k: thresholds, models on their own paths, composition from directories."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from lively import DIMS, assert_close, ended, lively, reads_of, sentences, translations
from model_directories import save
from training_runs import DIMS as TOY_DIMS
from training_runs import prepare_toy, recipe

import hmt
from hmt.errors import UserError
from hmt.models.directory import compose_system, load_system
from hmt.streaming.engine import Engine
from hmt.systems.adaptive import Adaptive, AdaptiveConfig, AdaptiveKnobs
from hmt.systems.batch import make_batch
from hmt.systems.contract import PassOutput
from hmt.text.symbols import EOS
from hmt.training import load_recipe, parse_recipe, train

TOKEN = 5  # any word


class Sure(Adaptive):
    """An adaptive system whose models all say the same token with the same probability."""

    says: tuple[int, float] = (TOKEN, 0.5)

    def top(self, output: PassOutput) -> tuple[list[int], list[float]]:
        size = len(output.counts)
        return [self.says[0]] * size, [self.says[1]] * size


def sure(probability: float, token: int = TOKEN) -> Adaptive:
    torch.manual_seed(1)
    system = Sure(AdaptiveConfig(DIMS))
    system.says = token, probability
    return system


def test_thresholds_fall_linearly_with_the_lag() -> None:
    """AW-1"""
    knobs = AdaptiveKnobs(k_min=1, k_max=10, rho_a=1.0, rho_b=0.1)
    assert [round(knobs.threshold(k), 12) for k in range(1, 11)] == [
        1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("probability", "rho", "reads"),
    [
        (0.0, (0.9, 0.1), [3, 4, 5, 6, 7, 8]),  # AW-2
        (1.0, (0.9, 0.1), [1, 2, 3, 4, 5, 6]),  # AW-3
        (0.6, (0.9, 0.1), [2, 3, 4, 5, 6, 7]),  # AW-4
        (0.5, (0.9, 0.1), [2, 3, 4, 5, 6, 7]),  # as sure as asked for
        (0.0, (0.0, 0.0), [1, 2, 3, 4, 5, 6]),  # AW-5
        (1.0, (1.01, 1.01), [3, 4, 5, 6, 7, 8]),  # AW-5
    ],
)
def test_confidence_chooses_between_the_lags(
    probability: float, rho: tuple[float, float], reads: list[int]
) -> None:
    knobs = {"k_min": 1, "k_max": 3, "rho_a": rho[0], "rho_b": rho[1]}
    assert reads_of(sure(probability), 8, 6, **knobs) == reads


def test_an_end_is_not_believed_before_the_source_ends() -> None:
    for probability in 1.0, 0.0:
        system = sure(probability, token=EOS)
        assert reads_of(system, 8, 3, k_min=1, k_max=3) == [8, 8, 8]


@pytest.mark.parametrize("k", [1, 3])
def test_adaptive_with_one_lag_is_wait_k(k: int) -> None:
    """AW-6, INV-10"""
    wait_k, multipath = lively("wait-k", k=k), lively("multipath")
    sources = sentences(6, seed=5)
    for model in wait_k, multipath:
        adaptive = Adaptive.compose([model])
        ours = translations(adaptive, sources, k_min=k, k_max=k)
        for a, b in zip(ours, translations(model, sources, k=k), strict=True):
            assert (a.target, a.reads) == (b.target, b.reads)
            assert_close(a.log_probs, b.log_probs)


def test_every_model_stays_on_its_own_wait_k_path() -> None:
    """What is written at lag k has the log-probability that the wait-k model alone gives it."""
    models = [lively("wait-k", seed=seed, k=k) for seed, k in ((3, 1), (4, 2), (5, 4))]
    adaptive = Adaptive.compose(models)
    sources, targets = sentences(8, seed=6, longest=12), ended(sentences(8, seed=7, longest=12))
    by_lag = {
        k: translations(model, sources, targets, k=k)
        for k, model in ((1, models[0]), (2, models[1]), (3, models[1]), (4, models[2]))
    }
    engine = Engine(adaptive, slots=3)
    knobs = adaptive.knobs(rho_a=0.4, rho_b=0.2)
    lags: Counter[int] = Counter()
    for n, stream in engine.translate(sources, knobs, targets):
        for i, (read, log_prob) in enumerate(zip(stream.reads, stream.log_probs, strict=True)):
            k = 4 if read == len(stream.source) else read - i
            assert_close([log_prob], [by_lag[k][n].log_probs[i]])
            lags[k] += 1
    assert lags.keys() == by_lag.keys(), "every lag must have been tried"
    # Every M_k computes a target position once, and all that it lacks in one pass.
    assert engine.counts.rows <= 4 * sum(map(len, targets))
    decisions = sum(len(source) + 1 + len(t) for source, t in zip(sources, targets, strict=True))
    assert engine.counts.passes <= decisions


def test_an_ensemble_writes_by_the_mean_of_the_three_nearest_models() -> None:
    """At lag k all three follow wait-k; streaming gives what a parallel pass gives."""
    lags = (1, 2, 4, 6)
    models = [lively("wait-k", seed=seed, k=k) for seed, k in enumerate(lags, 3)]
    adaptive = Adaptive.compose(models)
    sources, targets = sentences(8, seed=6, longest=12), ended(sentences(8, seed=7, longest=12))
    nearest = {1: models[:3], 2: models[:3], 3: models[:3], 4: models[1:], 5: models[1:]}
    nearest[6] = models[1:]
    alone = {
        k: [translations(model, sources, targets, k=k) for model in near]
        for k, near in nearest.items()
    }
    chosen = {"rho_a": 0.3, "rho_b": 0.1, "ensemble": True}
    streams = translations(adaptive, sources, targets, 3, **chosen)
    lags_met: Counter[int] = Counter()
    for n, stream in enumerate(streams):
        for i, (read, log_prob) in enumerate(zip(stream.reads, stream.log_probs, strict=True)):
            k = 6 if read == len(stream.source) else read - i
            each = torch.tensor([own[n].log_probs[i] for own in alone[k]], dtype=torch.float64)
            assert_close([log_prob], [each.exp().mean().log().item()])
            lags_met[k] += 1
    assert len(lags_met) > 3, "several lags must have been tried"
    assert any(s.reads != t.reads for s, t in zip(streams, alone[6][0], strict=True))
    one_by_one = translations(adaptive, sources, targets, 1, **chosen)
    for a, b in zip(one_by_one, streams, strict=True):
        assert a.reads == b.reads
        assert_close(a.log_probs, b.log_probs)
    for n, stream in enumerate(streams):
        batch = make_batch([stream.source], [targets[n]])
        reads = torch.tensor([stream.reads])
        scores = adaptive.score(batch, adaptive.knobs(**chosen), reads)
        assert_close(scores[0].tolist(), stream.log_probs)


def test_ensembles_are_of_neighbours() -> None:
    system = Adaptive(AdaptiveConfig(DIMS, lags=(9, 1, 3, 5)))
    assert system.neighbours == [[1, 2, 3], [2, 3, 0]]
    assert [system.nearest(k, ensemble=True) for k in (1, 4, 5, 6, 9)] == [4, 4, 4, 5, 5]
    assert len(system.transformers) == 6 and not system.doubts(system.knobs(ensemble=True))
    pair = Adaptive(AdaptiveConfig(DIMS, lags=(1, 3)))
    assert pair.neighbours == [[0, 1]]
    single = Adaptive(AdaptiveConfig(DIMS))
    assert single.nearest(4, ensemble=True) == 0
    assert "one model for all lags" in single.doubts(single.knobs(ensemble=True))[0]


def test_a_lag_without_a_model_is_served_by_the_nearest() -> None:
    system = Adaptive(AdaptiveConfig(DIMS, lags=(1, 3, 9)))
    assert [system.nearest(k) for k in range(1, 11)] == [0, 0, 1, 1, 1, 1, 2, 2, 2, 2]
    assert system.knobs() == AdaptiveKnobs(k_min=1, k_max=9)


def test_the_composed_directory_stands_alone(tmp_path: Path) -> None:
    models = [lively("wait-k", seed=seed, k=k).float() for seed, k in ((3, 1), (4, 3))]
    folders = [tmp_path / "one", tmp_path / "three"]
    for folder, model in zip(folders, models, strict=True):
        save(folder, model)
    save(tmp_path / "both", compose_system("adaptive", folders))
    for folder in folders:
        (folder / "model.safetensors").unlink()
    loaded, config = load_system(tmp_path / "both")
    assert config.config["lags"] == [1, 3]
    sources = sentences(5, seed=8)
    for n, k in enumerate((1, 3)):
        alone = translations(models[n], sources)
        for a, b in zip(translations(loaded, sources, k_min=k, k_max=k), alone, strict=True):
            assert (a.target, a.log_probs) == (b.target, b.log_probs)


@pytest.mark.parametrize(
    ("models", "complaint"),
    [
        ([], "no models"),
        ([("wait-k", {"k": 1}), ("wait-k", {"k": 1})], r"k = \(1, 1\)"),
        ([("multipath", {}), ("wait-k", {"k": 1})], "multipath, wait-k"),
        ([("multipath", {}), ("multipath", {})], "one multipath model"),
        ([("full", {})], "was given full"),
    ],
)
def test_what_cannot_be_composed_is_said(
    models: Sequence[tuple[str, dict[str, Any]]], complaint: str
) -> None:
    with pytest.raises(UserError, match=complaint):
        Adaptive.compose([lively(name, **config) for name, config in models])


def test_only_some_systems_are_composed() -> None:
    with pytest.raises(UserError, match="wait-k model is trained, not composed"):
        type(lively("wait-k")).compose([])
    with pytest.raises(UserError, match="k_min = 3 and k_max = 2"):
        AdaptiveKnobs(k_min=3, k_max=2)


def test_a_recipe_composes_and_trains_in_stages(tmp_path: Path) -> None:
    """`hmt train` of a recipe that names models makes a model directory without updates."""
    data = prepare_toy(tmp_path)
    config = {"dims": {**TOY_DIMS, "share_embeddings": False}}
    for k in 1, 3:
        model = {"system": "wait-k", "config": {**config, "k": k}}
        train(recipe(data, tmp_path / f"wait-{k}", model=model, updates=2))
    folders = [str(tmp_path / "wait-1"), str(tmp_path / "wait-3")]
    table: dict[str, Any] = {
        "output": str(tmp_path / "both"),
        "data": {"directory": str(data)},
        "model": {"system": "adaptive", "models": folders, "knobs": {"rho_a": 0.1}},
    }
    for _ in range(2):  # the same command again does no harm
        assert train(parse_recipe(table)).is_finished
    kept = load_recipe(tmp_path / "both" / "training" / "recipe.json")
    assert kept == parse_recipe(table), "what a run keeps of its recipe can be trained again"
    both = hmt.load(tmp_path / "both")
    assert both.knobs() == AdaptiveKnobs(k_min=1, k_max=3, rho_a=0.1)
    assert both.config.facts["weights"] == "composed"
    assert both.config.facts["models"] == ["wait-1", "wait-3"]
    assert "weights: those of `wait-1`" in (tmp_path / "both" / "README.md").read_text()
    assert both.translate(["ein Satz"])[0].target_tokens
    loaded = load_system(tmp_path / "wait-3")[0]
    for key, value in loaded.transformer.state_dict().items():
        assert torch.equal(both.system.transformers[1].state_dict()[key], value)

    table["model"] = {"system": "adaptive", "models": folders, "config": config}
    with pytest.raises(UserError, match="leave out model"):
        parse_recipe(table)
    table["model"] = {"system": "wait-k", "models": folders}
    with pytest.raises(UserError, match="trained, not composed"):
        train(parse_recipe(table))
