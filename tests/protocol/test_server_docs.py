"""Every message in the documentation is one that the server takes or sends."""

import re
from pathlib import Path

import pytest

pytest.importorskip("msgspec", reason="the extra `serve` is not installed")

from hmt.server.messages import decode, decode_server, encode

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "serve.md").read_text()


def examples(side: str) -> list[str]:
    blocks = re.findall(rf"```json {side}\n(.*?)```", TEXT, re.S)
    return [line for block in blocks for line in block.splitlines()]


def test_examples_of_clients_are_decoded() -> None:
    types = {type(decode(line)).__name__ for line in examples("client")}
    assert len(types) == 7


def test_examples_of_servers_are_what_is_sent() -> None:
    lines = examples("server")
    assert len(lines) == 7
    for line in lines:
        event = decode_server(line)
        assert decode_server(encode(event)) == event
