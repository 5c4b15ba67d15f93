"""Broken files: a document or one Problem each; nothing else, and none that is waited for."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.mostly_slow import mostly_slow

ROOT = Path(__file__).parents[3]
FORMATS = ("pdf", "text", "markdown", "csv", "notebook")
FEW, MANY = 60, 1000


@pytest.mark.parametrize(
    ("kind", "count"),
    mostly_slow(
        [(kind, count) for kind in FORMATS for count in (FEW, MANY)],
        quick=[(kind, FEW) for kind in FORMATS],
    ),
)
def test_each_is_a_document_or_a_problem(kind: str, count: int) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "tests.support.documents.mutations", kind, str(count)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    came = json.loads(ended.stdout)
    assert sum(came.values()) == count
    assert came["document"] > count / 10
