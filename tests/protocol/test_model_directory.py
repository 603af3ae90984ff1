"""The model directory: what may stand in it, and that it is usable at any instant."""

import json
import os
import shlex
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import ROOT
from lively import lively
from model_directories import save
from safetensors.torch import load_file

import hmt
from hmt.errors import UserError
from hmt.files import drafting, replacing
from hmt.model.dims import Dims
from hmt.model.segmenter import Segmenter
from hmt.models.directory import load_segmenter, load_system, read_config, write_segmenter
from hmt.models.model import PRETRAINED
from hmt.models.weights import unshared, write_weights
from hmt.plain import to_plain
from hmt.text.tokenizer import word_tokenizer
from hmt.training import load_recipe


def changed(folder: Path, **values: Any) -> Path:
    """A model directory whose config.json has other values; `...` takes one away."""
    path = save(folder, lively("wait-k").float()) / "config.json"
    content = {**json.loads(path.read_text()), **values}
    path.write_text(json.dumps({k: v for k, v in content.items() if v is not ...}))
    return folder


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"avoid_loops": True}, '"avoid_loops" is unknown; allowed are .*languages, avoids_loops'),
        ({"system": ...}, '"system" is missing'),
        ({"system": "babelfish"}, '"babelfish" is unknown; known are hmt'),
        ({"config": 3}, '"config" is 3; it must be a table'),
        ({"config": {"dims": {"wide": 3}}}, r'"config\.dims\.wide" is unknown'),
        ({"avoids_loops": "yes"}, '"avoids_loops" is "yes"; it must be true or false'),
        ({"end_penalty": -1.0}, "end_penalty = -1.0: give what a sentence end costs"),
        ({"end_penalty": "much"}, '"end_penalty" is "much"; it must be a number'),
        ({"languages": ["de"]}, "a list of 2 texts or null"),
        ({"languages": ["German", "en"]}, '"German" is not a code'),
        ({"format": 2}, "format 2, but this version of hmt reads format 1"),
    ],
)
def test_a_wrong_configuration_is_named(tmp_path: Path, values: Any, message: str) -> None:
    with pytest.raises(UserError, match=f"config\\.json: .*{message}"):
        load_system(changed(tmp_path / "model", **values))


def test_a_directory_without_the_newer_keys_is_read(tmp_path: Path) -> None:
    folder = changed(
        tmp_path / "model", languages=..., avoids_loops=..., end_penalty=..., knobs=..., facts=...
    )
    config = load_system(folder)[1]
    assert (config.languages, config.avoids_loops, config.facts) == (None, False, {})
    assert config.end_penalty == 0.0


def test_weights_of_another_shape_or_name_are_named(tmp_path: Path) -> None:
    system = lively("wait-k").float()
    dims = json.loads((save(tmp_path / "a", system) / "config.json").read_text())["config"]["dims"]
    wider = {"dims": {**dims, "ffn": 2 * dims["ffn"]}}
    deeper = {"dims": {**dims, "encoder_layers": dims["encoder_layers"] + 1}}
    with pytest.raises(UserError, match="have the shape"):
        load_system(changed(tmp_path / "b", config=wider))
    with pytest.raises(UserError, match=r"they lack transformer\.encoder"):
        load_system(changed(tmp_path / "c", config=deeper))
    shallower = {"dims": {**dims, "encoder_layers": dims["encoder_layers"] - 1}}
    with pytest.raises(UserError, match=r"have an unknown transformer\.encoder"):
        load_system(changed(tmp_path / "d", config=shallower))


def test_the_directory_is_usable_at_any_instant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After each file that is put in its place the directory holds a model, whole, or says no.

    Planted: the configuration before the weights; the old configuration left beside new weights.
    """
    first, second, other = lively("wait-k", 1), lively("wait-k", 2), lively("hmt", 3)
    models = [system.float() for system in (first, second, other)]
    save(tmp_path, models[0])
    seen: list[str] = []
    real = Path.replace

    def whose() -> str:
        try:
            found = load_system(tmp_path)[0]
        except UserError as error:
            assert "it has no config.json" in str(error)
            return "none"
        same = [
            name
            for name, model in zip(("first", "second", "other"), models, strict=True)
            if model.name == found.name
            and all(torch.equal(t, unshared(model)[n]) for n, t in unshared(found).items())
        ]
        assert same, "neither the old model nor the new one"
        return same[0]

    def replace(self: Path, target: Path) -> Path:
        done = real(self, target)
        seen.append(whose())
        return done

    monkeypatch.setattr(Path, "replace", replace)
    save(tmp_path, models[1], languages=["de", "en"])
    assert set(seen) == {"first", "second"} and seen[-1] == "second"
    seen.clear()
    save(tmp_path, models[2])
    assert set(seen) == {"none", "other"} and seen[-1] == "other"


@pytest.mark.parametrize("umask, directory, file", [(0o022, 0o755, 0o644), (0o077, 0o700, 0o600)])
def test_a_model_is_as_public_as_the_umask_says(
    tmp_path: Path, umask: int, directory: int, file: int
) -> None:
    """Planted: files as safetensors makes them, directories as mkdtemp does, both as their place.

    Where everybody may make files, as in /tmp, not everybody may change these.
    """
    tmp_path.chmod(0o1777)
    before = os.umask(umask)
    try:
        with drafting(tmp_path / "model", last="config.json") as draft:
            save(draft, lively("wait-k"), word_tokenizer(list("abc")))
    finally:
        os.umask(before)
    assert (tmp_path / "model").stat().st_mode & 0o777 == directory
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "model").iterdir()}
    assert set(modes.values()) == {file} and len(modes) == 4


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444])
def test_a_file_that_is_replaced_stays_as_private_as_it_was(tmp_path: Path, mode: int) -> None:
    """Planted: the mode of the umask, before or after the file is written."""
    path = tmp_path / "private"
    path.write_text("old")
    path.chmod(mode)
    with replacing(path) as temporary:
        assert temporary.stat().st_mode & 0o077 == 0
        temporary.write_text("new")
    assert path.read_text() == "new" and path.stat().st_mode & 0o777 == mode


def test_a_draft_fills_an_empty_directory_and_leaves_nothing_if_it_fails(tmp_path: Path) -> None:
    output = tmp_path / "model"
    with pytest.raises(ValueError), drafting(output, last="b") as draft:
        (draft / "a").write_text("a")
        raise ValueError
    assert not any(tmp_path.iterdir())
    output.mkdir()
    stood = output.stat().st_ino
    with drafting(output, last="a") as draft:
        (draft / "a").write_text("a")
        (draft / "b").write_text("b")
    assert output.stat().st_ino == stood, "the user may be working in it"
    assert sorted(file.name for file in output.iterdir()) == ["a", "b"]
    with pytest.raises(UserError, match="not an empty directory"), drafting(output, last="a"):
        pass


def test_the_card_has_a_command_that_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The path is the one that was given, quoted where a shell needs it."""
    from command_line import call

    monkeypatch.chdir(tmp_path)
    tokenizer = word_tokenizer(list("abcdefghij"))
    save(Path("my models/a"), lively("wait-k").float(), tokenizer, languages=["de", "pt-BR"])
    card = (tmp_path / "my models" / "a" / "README.md").read_text()
    assert card.startswith("# a\n") and "the system *wait-k*" in card and "from de to pt-BR" in card
    (command,) = (line for line in card.splitlines() if "hmt translate" in line)
    program = shlex.split(command.split("|")[1])
    assert program[0] == "hmt"
    assert call(program[1:], capfd, monkeypatch, b"a b\n").code == 0


def test_half_precision_is_an_argument(tmp_path: Path) -> None:
    from hmt.models.directory import Card, describe, write_model

    system = lively("wait-k").float()
    write_model(tmp_path, system, describe(system), {}, Card(tmp_path, "random"), is_half=True)
    stored = load_file(tmp_path / "model.safetensors")
    assert {tensor.dtype for tensor in stored.values()} == {torch.float16}
    loaded = unshared(load_system(tmp_path)[0])
    assert {tensor.dtype for tensor in loaded.values()} == {torch.float32}


def test_what_ships_is_what_its_recipe_writes() -> None:
    """Every setting of the shipped configuration comes from the recipe: none was added by hand."""
    shipped = read_config(PRETRAINED)
    last = load_recipe(ROOT / "recipes" / "german-english" / "hmt.toml").stages[-1].model
    assert shipped.system == last.system
    assert (shipped.languages, shipped.avoids_loops) == (last.languages, last.avoids_loops)
    assert shipped.avoids_loops and shipped.languages == ("de", "en")
    assert shipped.end_penalty == last.end_penalty > 0
    for name, value in last.config.items():
        if name != "dims":
            assert shipped.config[name] == value
    assert shipped.config["dims"].items() >= last.config["dims"].items()
    assert shipped.knobs == to_plain(hmt.load().system.knobs(**last.knobs))
    assert all("/" not in name for name in shipped.facts["averaged"])


# ---- the segmenter, which may be missing


def dims(vocabulary: int) -> Dims:
    return Dims(vocabulary, vocabulary, 8, 16, 2, encoder_layers=2, decoder_layers=1)


def test_a_segmenter_is_read_as_it_was_written_and_may_be_missing(tmp_path: Path) -> None:
    assert load_segmenter(tmp_path, dims(20)) is None
    segmenter = Segmenter(dims(20), memory=8).eval()
    write_segmenter(tmp_path, segmenter)
    found = load_segmenter(tmp_path, dims(20))
    assert found is not None and not found.training
    for word in ([3, 4], [5]):
        (heard, *_), _ = found.hear(word, None)
        (expected, *_), _ = segmenter.hear(word, None)
        assert heard.border == pytest.approx(expected.border, abs=1e-3)


def test_a_segmenter_of_another_vocabulary_or_of_none_is_refused(tmp_path: Path) -> None:
    write_segmenter(tmp_path, Segmenter(dims(20), memory=8))
    with pytest.raises(UserError, match=r"segmenter\.safetensors: .* \(20, 8\), but .* \(21, 8\)"):
        load_segmenter(tmp_path, dims(21))
    model = save(tmp_path / "m", lively("wait-k").float())
    (model / "model.safetensors").replace(tmp_path / "segmenter.safetensors")
    with pytest.raises(UserError, match="does not hold a segmenter"):
        load_segmenter(tmp_path, dims(20))
    write_weights(tmp_path / "segmenter.safetensors", {"outputs.weight": torch.tensor(1.0)})
    with pytest.raises(UserError, match="does not hold a segmenter"):
        load_segmenter(tmp_path, dims(20))
    # 16,384 wide: its weights would take gigabytes, of which the file has none
    tensors = {"encoder.0.x": torch.zeros(20, 6), "outputs.weight": torch.zeros(18, 16_384)}
    write_weights(tmp_path / "segmenter.safetensors", tensors)
    with pytest.raises(UserError, match=r"segmenter\.safetensors: .* they lack"):
        load_segmenter(tmp_path, dims(20))


def test_a_segmenter_of_an_older_version_is_refused(tmp_path: Path) -> None:
    tensors = {"words.weight": torch.zeros(20, 6), "outputs.weight": torch.zeros(18, 8)}
    write_weights(tmp_path / "segmenter.safetensors", tensors)
    with pytest.raises(UserError, match=r"older version.*train another with `hmt segmenter`"):
        load_segmenter(tmp_path, dims(20))


def test_a_damaged_segmenter_is_refused(tmp_path: Path) -> None:
    write_segmenter(tmp_path, Segmenter(dims(20), memory=8))
    path = tmp_path / "segmenter.safetensors"
    content = bytearray(path.read_bytes())
    content[-9] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(UserError, match="is damaged"):
        load_segmenter(tmp_path, dims(20))
