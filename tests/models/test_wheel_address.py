"""The address of a wheel, also from a pip that has other insides."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import models
from tests.support.packaging.tiny_wheel import zipped

ROOT = Path(models.__file__).parents[1]
ASK = "from models.wheel_address import main; main(sys.argv[1])"


@pytest.mark.slow
@pytest.mark.parametrize("before", ["", "sys.modules['pip._internal.commands'] = None; "])
def test_a_wheel_in_a_folder(tmp_path, before):
    wheel = tmp_path / "tiny-1.0-py3-none-any.whl"
    metadata = b"Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n"
    tag = b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    members = {"METADATA": metadata, "WHEEL": tag, "RECORD": b""}
    wheel.write_bytes(zipped({f"tiny-1.0.dist-info/{name}": members[name] for name in members}))
    pip = {"CONFIG_FILE": os.devnull, "NO_INDEX": "1", "FIND_LINKS": str(tmp_path)}

    def ask(requirement):
        return subprocess.run(
            [sys.executable, "-c", f"import sys; {before}{ASK}", requirement],
            cwd=ROOT,
            env=os.environ | {f"PIP_{name}": value for name, value in pip.items()},
            capture_output=True,
        )

    found = json.loads(ask("tiny==1.0").stdout)
    assert found["url"] == wheel.as_uri()
    assert found["sha256"] == hashlib.sha256(wheel.read_bytes()).hexdigest()
    missing = ask("tiny==2.0")
    assert missing.returncode == 1
    assert b"ERROR" in missing.stderr
