"""Broken files: each is read, or one Problem; nothing else, and none that is waited for."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
KINDS = (
    *("pdf", "text", "markdown", "csv", "notebook", "docx", "xlsx", "pptx", "epub", "html"),
    *("eml", "webarchive"),
    *("png", "jpeg", "webp", "gif", "bmp", "tiff"),
)


def test_each_is_read_or_a_problem():
    check(40, KINDS)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_each_of_many_is_read_or_a_problem(kind):
    check(3000, [kind])


def check(count, kinds):
    ended = subprocess.run(
        [sys.executable, "-m", "tests.support.documents.mutations", str(count), *kinds],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    came = json.loads(ended.stdout)
    assert [*came] == [*kinds]
    assert all(sum(each.values()) == count for each in came.values())
    assert all(each["read"] > count / 20 for each in came.values())
