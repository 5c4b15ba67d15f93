"""Steps are told as they begin, and what took how long at the end."""

from io import StringIO

import pytest
from rich.console import Console

from engine.library.progress import Steps


class Watch:
    """A clock that is set."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def written() -> StringIO:
    return StringIO()


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture
def steps(written: StringIO, watch: Watch) -> Steps:
    return Steps(Console(file=written, width=200), watch)


def test_each_is_told_as_it_begins_and_all_at_the_end(
    steps: Steps, written: StringIO, watch: Watch
) -> None:
    steps.begin("fetching", "Fetching it: 93 MB")
    assert written.getvalue() == "Fetching it: 93 MB\n"
    watch.now += 39
    steps.begin("loading")
    watch.now += 2
    steps.begin("measuring", "Measuring [once]")
    watch.now += 5
    steps.end()
    assert written.getvalue().splitlines()[1:] == [
        "Measuring [once]",
        "Ready: fetching 39 s, loading 2 s, measuring 5 s.",
    ]


def test_what_is_done_every_time_is_not_told(steps: Steps, written: StringIO) -> None:
    steps.begin("loading")
    steps.end()
    assert written.getvalue() == ""
