"""The examples in deploy/: what linters say of them, and whether the server has what they name."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
VENV = os.environ.get("HMT_CLIENTS_VENV", "")
needs_linters = pytest.mark.skipif(
    not VENV, reason="HMT_CLIENTS_VENV names no environment with linters"
)


def lint(*command: str) -> str:
    """What a program of the environment prints; it must find nothing wrong."""
    path = Path(VENV).resolve() / "bin" / command[0]
    done = subprocess.run([path, *command[1:]], capture_output=True, text=True, cwd=DEPLOY)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def objects() -> dict[str, Any]:
    """The manifest by kind and name."""
    script = "import json, sys, yaml; print(json.dumps(list(yaml.safe_load_all(sys.stdin))))"
    text = (DEPLOY / "kubernetes.yaml").read_text()
    command = [str(Path(VENV).resolve() / "bin" / "python"), "-c", script]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    return {f"{one['kind']} {one['metadata']['name']}": one for one in json.loads(done.stdout)}


@needs_linters
def test_linters_find_nothing() -> None:
    lint("hadolint", "Dockerfile")
    lint("yamllint", "-c", ".yamllint", "kubernetes.yaml")
    lint("kubernetes-validate", "--strict", "--kubernetes-version", "1.31", "kubernetes.yaml")


@needs_linters
def test_the_manifest_names_what_the_server_has() -> None:
    app = pytest.importorskip("hmt.server.app", reason="the extra `serve` is not installed")
    serve = pytest.importorskip("hmt.cli.serve").serve
    paths = {route.path for route in app.routes()}
    spec = objects()["StatefulSet hmt"]["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    probes = [container[f"{kind}Probe"]["httpGet"] for kind in ("startup", "readiness", "liveness")]
    assert {probe["path"] for probe in probes} == {"/health/ready", "/health/live"} <= paths
    # the server refuses names that it was not given, such as the address of a pod
    assert all(probe["httpHeaders"] == [{"name": "Host", "value": "localhost"}] for probe in probes)
    given = dict(argument.removeprefix("--").split("=") for argument in container["args"])
    known = {name.replace("_", "-") for name in serve.__annotations__}
    assert given.keys() <= known
    assert spec["terminationGracePeriodSeconds"] > float(given["drain-seconds"]) + 10


def test_the_container_names_what_the_server_has() -> None:
    app = pytest.importorskip("hmt.server.app", reason="the extra `serve` is not installed")
    text = (DEPLOY / "Dockerfile").read_text()
    (path,) = re.findall(r"http://127.0.0.1:8765(/[\w/]+)", text)
    assert path in {route.path for route in app.routes()}
    copied = re.findall(r"^COPY (?!--)(.+) \S+$", text, re.M)
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    for name in " ".join(copied).split():
        assert (ROOT / name).exists() and f"!{name}" in ignored, name


def settings(text: str) -> list[str]:
    """A configuration of HAProxy without comments and without what only pods need."""
    text = re.sub(r"resolvers cluster\n(?:    .*\n)+", "", re.sub(r"\s*#.*", "", text))
    text = text.replace(" resolvers cluster init-addr none", "")
    for pod, name, port in (("hmt-0", "a1", 8765), ("hmt-1", "a2", 8766)):
        text = text.replace(f"{pod}.hmt.default.svc.cluster.local:8765", f"127.0.0.1:{port}")
        text = text.replace(pod, name)
    lines = [line.strip() for line in text.splitlines()]
    return [line for line in lines if line and "X-Forwarded" not in line]


@needs_linters
def test_the_proxy_of_the_manifest_is_the_one_that_is_tested() -> None:
    config = objects()["ConfigMap hmt-proxy"]["data"]["haproxy.cfg"]
    assert settings(config) == settings((DEPLOY / "haproxy.cfg").read_text())


@pytest.mark.skipif(shutil.which("haproxy") is None, reason="needs haproxy")
@needs_linters
def test_haproxy_takes_both_configurations(tmp_path: Path) -> None:
    (tmp_path / "pods.cfg").write_text(objects()["ConfigMap hmt-proxy"]["data"]["haproxy.cfg"])
    for path in (DEPLOY / "haproxy.cfg", tmp_path / "pods.cfg"):
        done = subprocess.run(["haproxy", "-c", "-f", path], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
