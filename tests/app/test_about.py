"""What Slipstream is and where it keeps things can be seen; a report gets the doctor's facts."""

from importlib import metadata
from pathlib import Path

import pytest
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QApplication, QLabel, QPushButton, QWidget

from app.about import AboutDialog, Places, ProblemReport, facts_text, open_path
from models.errors import Problem
from tests.support.app.fake_commands import FakeCommandRunner
from tests.support.app.window_use import part

ANSWER = {
    "usable": False,
    "lines": [
        {"name": "mlx", "fact": "0.32.4", "remedy": ""},
        {"name": "BLAS", "fact": "none", "remedy": "Install OpenBLAS."},
    ],
}
FACTS = "mlx: 0.32.4\nBLAS: none\n  -> Install OpenBLAS."


@pytest.fixture
def commands():
    return FakeCommandRunner()


@pytest.fixture
def report(commands, qapp):
    """A report: the texts that it copied, and the problems that it told."""
    made, copied, problems = ProblemReport(commands, parent=qapp), [], []
    made.copied.connect(copied.append)
    made.failed.connect(problems.append)
    made.begin()
    return copied, problems


@pytest.mark.parametrize("end", ["well", "with something wrong", "without an answer"])
def test_the_doctors_facts_are_copied_also_where_something_is_wrong(commands, report, end):
    doctor = commands.asked("doctor", "--json", "--no-pair")
    if end != "without an answer":
        doctor.tell(ANSWER)
    if end == "well":
        doctor.answer(ANSWER)
    else:
        doctor.fail("The doctor exited.", "Try again.")
    copied, problems = report
    if end == "without an answer":
        assert (copied, len(problems)) == ([], 1)
        assert facts_text({}) == ""
    else:
        assert (copied, problems) == ([FACTS], [])
        assert QApplication.clipboard().text() == FACTS


def test_the_dialog_names_version_licence_and_places_and_opens_what_is_there(qtbot, tmp_path):
    window = QWidget()
    qtbot.addWidget(window)
    dialog = AboutDialog(Places(tmp_path, tmp_path / "c.sqlite", None), parent=window)
    told = {label.text() for label in dialog.findChildren(QLabel)}
    assert {metadata.version("slipstream"), "Apache-2.0", str(tmp_path / "c.sqlite")} <= told
    assert not part(dialog, QPushButton, "Show log").isEnabled()
    with qtbot.waitSignal(dialog.shown) as shown:
        part(dialog, QPushButton, "Show data folder").click()
    assert shown.args == [tmp_path]
    for path in (None, tmp_path / "missing"):
        with pytest.raises(Problem):
            open_path(path)


def test_the_help_menu_shows_folder_and_log(open_window, until, monkeypatch):
    opened = []

    def open_url(url):
        opened.append(url.toLocalFile())
        return True

    monkeypatch.setattr(QDesktopServices, "openUrl", open_url)
    window = open_window()
    until(lambda: window.pair_bar.status == "loaded")
    for name in ("data_folder", "log", "readme"):
        window.menus.actions[name].trigger()
    assert opened == [
        str(window.store.path.parent),
        str(window.engine.log_path),
        str(Path(__file__).parents[2] / "README.md"),
    ]
    window.menus.actions["about"].trigger()
    (about,) = window.findChildren(AboutDialog)
    about.reject()
