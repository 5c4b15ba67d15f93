"""Steps are told as they begin, and what took how long at the end."""

from io import StringIO

import pyte
import pytest
from rich.console import Console

from engine.cli.models.progress import Steps, bytes_bar


class Watch:
    """A clock that is set."""

    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def written():
    return StringIO()


@pytest.fixture
def watch():
    return Watch()


@pytest.fixture
def steps(written, watch):
    return Steps(Console(file=written, width=200), watch)


def test_each_is_told_as_it_begins_and_all_at_the_end(steps, written, watch):
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


def test_what_is_done_every_time_is_not_told(steps, written):
    steps.begin("loading")
    steps.end()
    assert written.getvalue() == ""


def test_a_step_that_begins_while_bytes_come_stands_on_a_line_of_its_own(written):
    console = Console(file=written, width=60, force_terminal=True)
    steps = Steps(console)
    steps.begin("fetching", "Fetching it")
    with bytes_bar("It", console=console) as show:
        show(5, 10)
        steps.begin("importing", "Importing it")
        show(10, 10)
    screen = pyte.Screen(60, 8)
    pyte.Stream(screen).feed(written.getvalue().replace("\n", "\r\n"))
    assert [line.rstrip() for line in screen.display][:3] == ["Fetching it", "Importing it", ""]
    assert "10" not in "".join(screen.display)  # the bar has gone


def test_no_bar_goes_into_a_file(written):
    with bytes_bar("It", console=Console(file=written)) as show:
        show(5, 10)
    assert written.getvalue() == ""
