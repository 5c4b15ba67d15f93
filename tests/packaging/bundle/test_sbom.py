"""The bill of materials: complete, by the schema, and the same for the same components."""

import json
from dataclasses import replace

import pytest

from bundle.licences import BILL, Component, write_bill

MLX = Component("mlx", "0.32.4", "ab" * 32, "pkg:pypi/mlx@0.32.4", "MIT", None)
QT = Component("pyside6-essentials", "6.11.3", "cd" * 32, "pkg:pypi/q@6.11", "LGPL-3.0-only", None)
OWN = Component("slipstream", "0.1.0", "", "pkg:pypi/slipstream@0.1.0", "Apache-2.0", None)


def written(app, *components):
    (app / BILL).parent.mkdir(parents=True, exist_ok=True)
    write_bill(app, components=components)
    return (app / BILL).read_text()


def test_what_it_says(tmp_path):
    bill = json.loads(written(tmp_path, QT, OWN, MLX))
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


def test_the_same_components_make_the_same_bytes(tmp_path):
    once = written(tmp_path, MLX, QT, OWN)
    assert written(tmp_path, OWN, QT, MLX) == once
    other = written(tmp_path, OWN, QT, replace(MLX, version="0.32.5"))
    assert json.loads(other)["serialNumber"] != json.loads(once)["serialNumber"]
    assert "timestamp" not in once


def test_the_schema_has_nothing_to_object(tmp_path):
    validation = pytest.importorskip("cyclonedx.validation.json")
    schema = pytest.importorskip("cyclonedx.schema")
    validator = validation.JsonStrictValidator(schema.SchemaVersion.V1_6)
    text = written(tmp_path, MLX, QT, OWN)
    assert validator.validate_str(text) is None
    assert validator.validate_str(text.replace('"SHA-256"', '"SHA-257"')) is not None
