"""Broken office files, books and pages: a text or one Problem each, and nothing else."""

import pytest

from engine.documents.child import read_bytes
from models.errors import Problem
from tests.support.documents.office_mutations import mutations
from tests.support.documents.office_samples import office_samples

SAMPLES = office_samples()
FEW, ALL = 3, 50


def test_a_few() -> None:
    for name in SAMPLES:
        assert sum(_outcomes(name, first=0, count=FEW)) == FEW


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLES)
def test_many(name: str) -> None:
    texts, problems = _outcomes(name, first=FEW, count=ALL - FEW)
    assert texts + problems == ALL - FEW
    assert texts > 0
    assert problems > 0 or name.endswith(".html")


def _outcomes(name: str, *, first: int, count: int) -> tuple[int, int]:
    """How many had text, and how many had a Problem."""
    texts, problems = 0, []
    for data in mutations(SAMPLES[name].data, name=name, first=first, count=count):
        try:
            texts += bool(read_bytes(name, data).text)
        except Problem as problem:
            problems.append(problem)
    assert all(problem.remedy and "\n" not in problem.message for problem in problems)
    return texts, len(problems)
