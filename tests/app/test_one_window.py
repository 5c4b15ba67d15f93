"""A second start is answered by the first, and by nobody else."""

import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from app.one_window import SecondStarts, show_first_window


@pytest.fixture
def folder():
    with tempfile.TemporaryDirectory() as folder:  # short, as a socket's path must be
        yield Path(folder)


def test_the_first_is_asked(folder, qtbot):
    assert not show_first_window(folder)
    first = SecondStarts(folder)
    asked = []
    first.asked.connect(lambda: asked.append(True))
    with ThreadPoolExecutor() as threads:
        second = threads.submit(show_first_window, folder)
        qtbot.waitUntil(second.done)
    assert second.result()
    assert asked == [True]
    first.close()
    assert not show_first_window(folder)
    assert list(folder.iterdir()) == []


def test_a_process_that_was_killed_is_not_asked(folder, qtbot):
    killed = SecondStarts(folder)
    killed._notifier.setEnabled(False)
    killed._socket.close()
    assert not show_first_window(folder), "its socket is still there"
    with ThreadPoolExecutor() as threads:
        next_one = SecondStarts(folder)
        second = threads.submit(show_first_window, folder)
        qtbot.waitUntil(second.done)
    assert second.result()
    next_one.close()


def test_a_folder_whose_path_is_too_long_has_no_socket(folder):
    deep = folder / ("x" * 120)
    deep.mkdir()
    first = SecondStarts(deep)
    assert not show_first_window(deep)
    assert not first._notifier.isEnabled(), "it would wake the event loop all the time"
    first.close()
