"""Broken catalogs, configs, tokenizers and headers: a Problem or a reading each, and no harm.

A few of each here; ten thousand in the slow form, in a process that may take little memory and is
stopped by the first thing that a file makes it run, look up or write elsewhere.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.models.mutations import SUBJECTS, read_mutations

FEW, MANY = 24, 10_000


@pytest.mark.parametrize("name", SUBJECTS)
def test_a_few(name, tmp_path):
    came = read_mutations(name, FEW, tmp_path)
    assert came["problem"] > FEW / 10
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", SUBJECTS)
def test_many_in_a_process_that_may_do_nothing_else(name, tmp_path):
    command = [sys.executable, "-m", "tests.support.models.mutations", name, str(MANY)]
    ended = subprocess.run(
        command,
        cwd=Path(__file__).parents[2],
        env={"TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr[-5000:]
    came = json.loads(ended.stdout)
    assert came["problem"] > MANY / 10
    assert came["reading"] > 0
