"""Earlier answers are kept while a person wants that, and the window waits for nobody."""

from unittest import mock

import pytest
from filelock import FileLock

from engine import earlier_answers
from engine.process.protocol import Loaded
from models.errors import Problem


def change(application, *wanted):
    """Switch learning on or off, one change after the other."""
    for learn in wanted:
        application.settings.learn = learn
        application.settings_changed.emit()


@pytest.fixture
def learning(open_window, until):
    """A window where earlier answers are kept, and there is one."""
    window = open_window("ready take load serve")
    folder = window.application.store.earlier_answers
    change(window.application, True)
    until(folder.exists)
    (folder / "some.json").write_text("{}")
    return window


@pytest.fixture
def in_use(learning):
    """The lock of that folder, which another program has."""
    folder = learning.application.store.earlier_answers
    with FileLock(folder.with_name(f".{folder.name}.lock")) as lock:
        yield lock


def test_earlier_answers_are_kept_while_that_is_switched_on(open_window, until):
    window = open_window("ready take load take load take load serve")
    application, loads = window.application, list[Loaded]()
    asked = []
    load = application.engine.load
    window.engine.loaded.connect(loads.append)
    until(lambda: len(loads) == 1)
    folder = application.store.earlier_answers
    application.engine.load = lambda *of, **how: (asked.append(how["learn"]), load(*of, **how))
    application.settings_changed.emit()
    assert not folder.exists()

    change(application, True)
    until(lambda: len(loads) == 2 and folder.exists())
    assert folder.stat().st_mode & 0o777 == 0o700
    (folder / "some.json").write_text("{}")
    troubles = list[Problem]()
    application.troubled.connect(troubles.append)
    with mock.patch("shutil.rmtree", side_effect=OSError(13, "Permission denied")):
        change(application, False)
        until(lambda: len(loads) == 3 and troubles)
    assert str(folder) in troubles[0].message
    application.settings_changed.emit()  # another change tries again
    until(lambda: not folder.exists())
    assert (asked, len(troubles)) == ([True, False], 1)


@pytest.mark.quick(1)
@pytest.mark.parametrize("changes", [(False,), (False, True), (False, True, False)])
def test_the_window_waits_for_no_other_program_and_the_last_change_holds(learning, in_use, changes):
    store = learning.application.store
    file = store.earlier_answers / "some.json"
    change(learning.application, *changes)
    assert file.exists(), "the other program has it still"
    in_use.release()
    store.folders().result()  # which the store does behind all that it was asked for before
    assert not file.exists()
    assert store.earlier_answers.exists() == changes[-1]


def test_it_closes_though_another_program_hangs(learning, in_use, monkeypatch):
    monkeypatch.setattr(earlier_answers, "LOCK_SECONDS", 0.01)
    folder = learning.application.store.earlier_answers
    change(learning.application, False)
    learning.close()
    assert in_use.is_locked
    assert (folder / "some.json").exists()


def test_what_was_switched_off_last_is_deleted_before_it_closes(learning):
    folder = learning.application.store.earlier_answers
    change(learning.application, False)
    learning.close()
    assert not folder.exists()
