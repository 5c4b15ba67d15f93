"""The starter model appears whole or not at all, and is fetched once."""

import hashlib
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import models
from models import starter as module
from models.errors import Problem
from models.files import HOME_VARIABLE
from models.starter import GGUF_VARIABLE, MARKER_NAME, Starter, Wheel, ensure_starter, locate_wheel
from tests.support.models.hub_server import FILE, WHEELS, Refusal, serving_file, serving_hub, sha256
from tests.support.models.tiny_gguf import TinyGguf
from tests.support.packaging.tiny_wheel import zipped


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv(GGUF_VARIABLE, raising=False)
    monkeypatch.delenv(HOME_VARIABLE, raising=False)


@pytest.fixture(scope="module")
def gguf(tmp_path_factory):
    path = tmp_path_factory.mktemp("gguf") / "a.gguf"
    TinyGguf().write(path)
    return path.read_bytes()


@pytest.fixture
def starter(gguf):
    return Starter("tiny", "tiny-model==1", hashlib.sha256(gguf).hexdigest(), len(gguf), 0)


@pytest.fixture
def server(gguf):
    wheel = zipped({"tiny/a.gguf": gguf, "tiny/code.py": b"raise SystemExit"})
    with serving_file(wheel) as served:
        yield served


def data_of(server):
    return server.repositories[WHEELS][FILE]


def located(server):
    return lambda requirement: Wheel(server.url, sha256(data_of(server)))


def nowhere(requirement):
    raise AssertionError("the index must not be asked")


def test_the_starter_is_fetched_once(server, starter, tmp_path):
    calls, steps = [], []
    folder = ensure_starter(
        home=tmp_path,
        starter=starter,
        locate=located(server),
        begins=steps.append,
        progress=lambda *call: calls.append(call),
    ).path
    assert steps == ["fetching", "importing"]
    assert folder == tmp_path / "models" / "tiny"
    assert calls[-1] == (len(data_of(server)), len(data_of(server)))
    assert (folder / MARKER_NAME).read_text().strip() == starter.gguf_sha256
    again = ensure_starter(home=tmp_path, starter=starter, locate=nowhere, begins=steps.append)
    assert again.path == folder
    assert len(steps) == 2
    visible = [path for path in folder.parent.iterdir() if path.suffix != ".lock"]
    assert visible == [folder]
    wheel = tmp_path / "a b.whl"  # on this machine
    wheel.write_bytes(data_of(server))
    here = Wheel(wheel.as_uri(), "")
    ensure_starter(home=tmp_path / "other", starter=starter, locate=lambda requirement: here)
    assert wheel.exists()
    assert len(server.asked) == 1


def test_a_starter_that_comes_with_the_application(server, starter, tmp_path):
    shipped, home = tmp_path / "shipped", tmp_path / "home"
    (shipped / "tiny").mkdir(parents=True)  # a part of one does not count
    made = ensure_starter(
        home=tmp_path, starter=starter, locate=located(server), shipped=shipped
    ).path
    assert made == tmp_path / "models" / "tiny"
    (shipped / "tiny").rmdir()
    made.rename(shipped / "tiny")
    shipped.chmod(0o500)

    found = ensure_starter(home=home, starter=starter, locate=nowhere, shipped=shipped).path

    assert found == shipped / "tiny"
    assert not home.exists()


def test_what_is_damaged_or_of_another_version_is_made_again(server, starter, tmp_path, subtests):
    folder = ensure_starter(home=tmp_path, starter=starter, locate=located(server)).path
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    for name, content in [
        *((name, None) for name in ("model.safetensors", "config.json", "tokenizer.json")),
        (MARKER_NAME, None),
        (MARKER_NAME, "0" * 64),
    ]:
        (folder / name).unlink()
        if content is not None:
            (folder / name).write_text(content)
        leftover = folder.parent / ".tiny.abc123"  # of an import that was killed
        leftover.mkdir()
        ensure_starter(home=tmp_path, starter=starter, locate=located(server))
        with subtests.test(name=name, content=content):
            assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
            assert not leftover.exists()


def test_a_wheel_with_anything_else_is_refused(gguf, starter, tmp_path, subtests):
    for name, data in {
        "another file": zipped({"a.gguf": b"GGUF"}),
        "none": zipped({}),
        "two": zipped({"a.gguf": b"x", "b.gguf": b"y"}),
        "no wheel": b"no zip",
        "wrong bytes": zipped({"a.gguf": gguf[:-1] + bytes([gguf[-1] ^ 1])}),
    }.items():
        with subtests.test(name=name), serving_file(data) as server:
            with pytest.raises(Problem, match="another file") as problem:
                ensure_starter(home=tmp_path, starter=starter, locate=located(server))
            assert GGUF_VARIABLE in problem.value.remedy
            assert not (tmp_path / "models" / "tiny").exists()
            assert not list((tmp_path / "models").rglob("*.gguf*"))


def test_a_copy_of_the_file_needs_no_network(gguf, starter, tmp_path, monkeypatch):
    copy = tmp_path / "copy.gguf"
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv(GGUF_VARIABLE, "~/copy.gguf")
    with pytest.raises(Problem, match=r"copy\.gguf"):
        ensure_starter(home=tmp_path, starter=starter, locate=nowhere)
    copy.write_bytes(gguf)
    ensure_starter(home=tmp_path, starter=starter, locate=nowhere)
    assert copy.read_bytes() == gguf
    (tmp_path / "file" / "models").parent.mkdir()
    (tmp_path / "file" / "models").touch()
    with pytest.raises(Problem, match="stored"):
        ensure_starter(home=tmp_path / "file", starter=starter, locate=nowhere)


def test_two_at_once_fetch_it_once(server, starter, tmp_path):
    with ThreadPoolExecutor() as pool:
        ensured = [
            pool.submit(ensure_starter, home=tmp_path, starter=starter, locate=located(server))
            for _ in range(2)
        ]
    assert len({each.result().path for each in ensured}) == len(server.asked) == 1


@pytest.mark.slow
def test_the_index_is_asked_and_the_wheel_not_fetched(monkeypatch):
    """Fetching it with progress comes after; a first time in silence took as long again."""
    wheel = "tiny-1.0-py3-none-any.whl"
    digest = "ab" * 32
    page = f'<a href="/{wheel}#sha256={digest}">{wheel}</a>'.encode()
    with serving_hub({}) as server:
        server.refusals["/tiny"] = Refusal(200, headers={"Content-Type": "text/html"}, body=page)
        index = server.endpoint
        monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
        monkeypatch.setenv("PIP_INDEX_URL", index)
        monkeypatch.delenv("PIP_EXTRA_INDEX_URL", raising=False)
        monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
        assert locate_wheel("tiny==1.0") == Wheel(f"{index}/{wheel}", digest)
        assert len(server.asked) == 1


def test_what_pip_says(monkeypatch, subtests):
    hangs = subprocess.TimeoutExpired(["python", "-c", "..."], module.PIP_SECONDS)
    says = subprocess.CalledProcessError(1, ["python"], stderr=b"WARNING: x\nERROR: No matching x")

    def answering(answer):
        def run(command, **settings):
            if isinstance(answer, Exception):
                raise answer
            said = answer if isinstance(answer, str) else json.dumps(answer)
            return subprocess.CompletedProcess(command, 0, said)

        monkeypatch.setattr(module.subprocess, "run", run)

    answering({"url": "http://127.0.0.1/x.whl", "sha256": "ab"})
    assert locate_wheel("x==1") == Wheel("http://127.0.0.1/x.whl", "ab")
    for answer, named in [
        (says, "No matching x"),
        ({}, "does not offer"),
        ([], "does not offer"),
        ("no json", "does not offer"),
        (subprocess.CalledProcessError(1, ["python"]), "does not offer"),
        (OSError("no memory"), "does not offer"),
        (hangs, "within 5 minutes"),
    ]:
        with subtests.test(answer=answer):
            answering(answer)
            with pytest.raises(Problem, match=named) as problem:
                locate_wheel("x==1")
            assert type(answer).__name__ not in problem.value.message
            assert "network" in problem.value.remedy
    monkeypatch.setattr(module.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(Problem, match="not installed"):
        locate_wheel("x==1")


ASK = """
import sys
sys.modules["pip._internal.commands"] = None
from models.wheel_address import main
main(sys.argv[1])
"""


@pytest.mark.slow
def test_a_wheel_in_a_folder_and_a_pip_that_has_other_insides(tmp_path):
    wheel = tmp_path / "tiny-1.0-py3-none-any.whl"
    metadata = b"Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n"
    tag = b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    members = {"METADATA": metadata, "WHEEL": tag, "RECORD": b""}
    wheel.write_bytes(zipped({f"tiny-1.0.dist-info/{name}": members[name] for name in members}))
    pip = {"CONFIG_FILE": os.devnull, "NO_INDEX": "1", "FIND_LINKS": str(tmp_path)}

    def ask(requirement):
        return subprocess.run(
            [sys.executable, "-c", ASK, requirement],
            cwd=Path(models.__file__).parents[1],
            env=os.environ | {f"PIP_{name}": value for name, value in pip.items()},
            capture_output=True,
        )

    found = json.loads(ask("tiny==1.0").stdout)
    assert found["url"] == wheel.as_uri()
    assert found["sha256"] == hashlib.sha256(wheel.read_bytes()).hexdigest()
    missing = ask("tiny==2.0")
    assert missing.returncode == 1
    assert b"ERROR" in missing.stderr
