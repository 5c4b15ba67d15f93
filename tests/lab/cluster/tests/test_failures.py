"""The real command meets with failures on two Macs that are namespaces."""

import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.lab.cluster.cable import plugged
from tests.lab.cluster.failures import FAILURES, Scene, answer, suffer

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0 or shutil.which("ip") is None,
    reason="network namespaces need Linux, root and iproute2",
)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with plugged() as cable:
        yield Scene(cable, tmp_path_factory.mktemp("macs"))


@pytest.fixture(scope="module")
def expected(scene: Scene) -> str:
    text = answer(scene)
    assert text, scene.said()
    return text


@pytest.mark.parametrize("name", ["rank 0 is killed", "another version"])
def test_a_failure_ends_in_one_line_and_the_next_answer_is_as_ever(
    scene: Scene, expected: str, name: str
):
    outcome = suffer(scene, FAILURES[name], expected)
    assert outcome.good, outcome


def test_an_answer_without_a_failure_is_no_failure(scene: Scene, expected: str):
    nothing = replace(FAILURES["rank 1 is killed"], happens=lambda scene: None)
    assert not suffer(scene, nothing, expected).good
