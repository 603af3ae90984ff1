"""The hub is asked only where a model is named as being there."""

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import hmt
from hmt.errors import UserError
from hmt.models import hub


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str | None]]:
    """What was asked of a hub that has one model: the one that ships."""
    calls: list[tuple[str, str | None]] = []

    def snapshot_download(name: str, revision: str | None = None) -> str:
        calls.append((name, revision))
        if name != "user/model":
            raise OSError("no network here")
        return str(Path(hmt.__file__).parent / "pretrained")

    package, errors = ModuleType("huggingface_hub"), ModuleType("huggingface_hub.errors")
    vars(package)["snapshot_download"] = snapshot_download
    vars(errors)["HfHubHTTPError"] = type("HfHubHTTPError", (Exception,), {})
    monkeypatch.setitem(sys.modules, "huggingface_hub", package)
    monkeypatch.setitem(sys.modules, "huggingface_hub.errors", errors)
    return calls


def test_a_mistyped_path_is_no_download(asked: list[tuple[str, str | None]]) -> None:
    """Planted: any name with one slash is asked for."""
    with pytest.raises(UserError, match="user/model is not a model directory"):
        hmt.load("user/model")
    assert asked == []


@pytest.mark.parametrize(
    ("name", "revision"), [("hf:user/model", None), ("hf:user/model@v1.2", "v1.2")]
)
def test_a_name_with_the_prefix_is_loaded(
    asked: list[tuple[str, str | None]], name: str, revision: str | None
) -> None:
    """Planted: the revision dropped."""
    assert hmt.load(name).system.name == "hmt"
    assert asked == [("user/model", revision)]


@pytest.mark.parametrize("name", ["hf:", "hf:model", "hf:a/b/c", "hf:user/model@"])
def test_a_wrong_name_is_refused_before_anything_is_asked(
    asked: list[tuple[str, str | None]], name: str
) -> None:
    with pytest.raises(UserError, match="not a name on the hub"):
        hub.fetch(name)
    assert asked == []


def test_without_a_network_the_message_says_so(asked: Any) -> None:
    with pytest.raises(UserError, match=r"no network here.*check the name and the network"):
        hmt.load("hf:user/other")
