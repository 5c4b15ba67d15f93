"""Licences: every component gets its texts, from where it has them, or building stops."""

import json
from dataclasses import replace

import pytest

from bundle import licences
from bundle.licences import BILL, Component, write_bill
from models.errors import Problem
from tests.support.packaging.tiny_bundle import write

PLAIN = Component("thing", "1.0", "", "pkg:pypi/thing@1.0", "", None)


def packaged(app, header, **files):
    """A component with a dist-info that has these files beside METADATA."""
    metadata = app / "thing-1.0.dist-info"
    write(metadata / "METADATA", f"Name: thing\nVersion: 1.0\n{header}\n".encode())
    for name, data in files.items():
        write(metadata / name.replace("__", "/"), data)
    return replace(PLAIN, metadata=metadata)


def texts(app, key):
    folder = app / licences.FOLDER / key
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_how_packages_say_what_licence_they_have(tmp_path, subtests):
    osi = "Classifier: License :: OSI Approved ::"
    for header, expression in [
        ("License-Expression: MIT AND (Apache-2.0 OR BSD-2-Clause)", None),
        ("License-Expression: BSD-3-Clause AND 0BSD AND MIT", None),
        ("License: LGPL-3.0-only OR GPL-3.0-only", None),
        ("License: Apache 2.0 License", "Apache-2.0"),
        (f"License: see the file\n{osi} MIT License", "MIT"),
        (f"{osi} Apache Software License", "Apache-2.0"),
        ("License: PSFL", "PSF-2.0"),
        ("License: BSD-3-Clause, Apache-2.0, dependency licenses", "BSD-3-Clause AND Apache-2.0"),
        (f"{osi} Mozilla Public License 2.0 (MPL 2.0)", "MPL-2.0"),
    ]:
        with subtests.test(header=header):
            said = expression or header.partition(": ")[2]
            assert licences.expression_of(packaged(tmp_path, header)) == said
    with pytest.raises(Problem, match="licence"):
        licences.expression_of(packaged(tmp_path, "License: ask the author nicely"))


def test_texts_come_along_or_are_the_repositorys_and_older_ones_go(tmp_path):
    write(tmp_path / licences.FOLDER / "old-1.0" / "LICENSE", b"old")
    component = packaged(
        tmp_path,
        "License-Expression: MIT",
        licenses__LICENSE=b"mine",
        licenses__numpy__COPYING=b"theirs",
        NOTICE=b"notice",
        RECORD=b"no licence",
    )
    python = replace(PLAIN, name="python", licence="Python-2.0.1")
    free = replace(PLAIN, name="free", licence="GPL-2.0-only OR Apache-2.0")
    licences.collect(tmp_path, components=[component, python, free])
    assert texts(tmp_path, "thing-1.0") == {"LICENSE", "numpy/COPYING", "NOTICE"}
    assert texts(tmp_path, "python-1.0") == {"LICENSE.txt", "incorporated-software.rst"}
    assert texts(tmp_path, "free-1.0") == {"Apache-2.0.txt"}
    assert texts(tmp_path, "old-1.0") == set()
    index = (tmp_path / licences.FOLDER / "index.txt").read_text()
    assert "\nthing 1.0: MIT\n" in index
    for licence in ("MIT", "Apache-2.0 AND MIT", "GPL-2.0-only"):  # whose text no one has
        with pytest.raises(Problem, match="without the text"):
            licences.collect(tmp_path, components=[replace(PLAIN, licence=licence)])


def test_qt_comes_with_both_licences_and_how_to_replace_it(tmp_path):
    qt = Component("pyside6-essentials", "6.11.3", "", "", "LGPL-3.0-only OR GPL-2.0-only", None)
    licences.collect(tmp_path, components=[qt])
    key = "pyside6-essentials-6.11.3"
    assert texts(tmp_path, key) == {"LGPL-3.0-only.txt", "GPL-3.0-only.txt"}
    for name, start in {"LGPL": "GNU LESSER GENERAL", "GPL": "GNU GENERAL"}.items():
        text = (tmp_path / licences.FOLDER / key / f"{name}-3.0-only.txt").read_text()
        assert text.strip().startswith(f"{start} PUBLIC LICENSE")
    replacing = (tmp_path / licences.FOLDER / licences.REPLACING_QT).read_text()
    assert "qtbase-everywhere-src-6.11.3.tar.xz" in replacing
    assert "official_releases/qt/6.11/6.11.3/" in replacing
    assert "{" not in replacing


# The bill of materials: complete, by the schema, and the same for the same components

MLX = Component("mlx", "0.32.4", "ab" * 32, "pkg:pypi/mlx@0.32.4", "MIT", None)
QT = Component("pyside6-essentials", "6.11.3", "cd" * 32, "pkg:pypi/q@6.11", "LGPL-3.0-only", None)
OWN = Component("slipstream", "0.1.0", "", "pkg:pypi/slipstream@0.1.0", "Apache-2.0", None)


def written(app, *components):
    (app / BILL).parent.mkdir(parents=True, exist_ok=True)
    write_bill(app, components=components)
    return (app / BILL).read_text()


def test_the_bill_of_materials(tmp_path):
    text = written(tmp_path, QT, OWN, MLX)
    bill = json.loads(text)
    assert bill["metadata"]["component"]["purl"] == OWN.purl
    assert [part["name"] for part in bill["components"]] == ["mlx", "pyside6-essentials"]
    assert bill["components"][0] == {
        "type": "library",
        "bom-ref": MLX.purl,
        "name": "mlx",
        "version": "0.32.4",
        "purl": MLX.purl,
        "licenses": [{"expression": "MIT"}],
        "hashes": [{"alg": "SHA-256", "content": "ab" * 32}],
    }
    assert bill["dependencies"][0] == {"ref": OWN.purl, "dependsOn": [MLX.purl, QT.purl]}
    assert written(tmp_path, OWN, QT, MLX) == text, "the same for the same components"
    other = written(tmp_path, OWN, QT, replace(MLX, version="0.32.5"))
    assert json.loads(other)["serialNumber"] != bill["serialNumber"]
    assert "timestamp" not in text
    validation = pytest.importorskip("cyclonedx.validation.json")
    schema = pytest.importorskip("cyclonedx.schema")
    validator = validation.JsonStrictValidator(schema.SchemaVersion.V1_6)
    assert validator.validate_str(text) is None
    assert validator.validate_str(text.replace('"SHA-256"', '"SHA-257"')) is not None
