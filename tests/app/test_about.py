"""What Slipstream is and where it keeps things can be seen; a report gets the doctor's facts."""

from importlib import metadata
from pathlib import Path

import pytest
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QApplication, QLabel, QPushButton, QWidget

from app.about import AboutDialog, Places, ProblemReport, facts_text, open_path
from models.errors import Problem
from tests.support.app.fake_commands import FakeCommandRunner

ANSWER = {
    "usable": False,
    "lines": [
        {"name": "mlx", "fact": "0.32.4", "remedy": ""},
        {"name": "BLAS", "fact": "none", "remedy": "Install OpenBLAS."},
    ],
}
FACTS = "mlx: 0.32.4\nBLAS: none\n  -> Install OpenBLAS."


class Report:
    """A report, and what came of it."""

    def __init__(self, parent):
        self.commands = FakeCommandRunner()
        self.report = ProblemReport(self.commands, parent=parent)
        self.copied = []
        self.problems = []
        self.report.copied.connect(self.copied.append)
        self.report.failed.connect(self.problems.append)
        self.report.begin()
        self.doctor = self.commands.asked("doctor", "--json", "--no-pair")


@pytest.fixture
def report(qapp):
    return Report(qapp)


@pytest.mark.parametrize("wrong", [False, True])
def test_the_doctors_facts_are_copied_also_where_something_is_wrong(report, wrong):
    report.doctor.tell(ANSWER)
    if wrong:
        report.doctor.fail("The doctor exited.", "")
    else:
        report.doctor.answer(ANSWER)
    assert report.copied == [FACTS]
    assert QApplication.clipboard().text() == FACTS
    assert report.problems == []


def test_a_doctor_that_fails_is_reported(report):
    report.doctor.fail("The doctor exited.", "Try again.")
    assert report.copied == []
    assert [problem.message for problem in report.problems] == ["The doctor exited."]
    assert facts_text({}) == ""


def test_the_dialog_names_version_licence_and_places(qtbot, tmp_path):
    window = QWidget()
    qtbot.addWidget(window)
    dialog = AboutDialog(Places(tmp_path, tmp_path / "c.sqlite", None), parent=window)
    told = [label.text() for label in dialog.findChildren(QLabel)]
    assert metadata.version("slipstream") in told
    assert "Apache-2.0" in told
    assert str(tmp_path / "c.sqlite") in told
    buttons = {button.text(): button for button in dialog.findChildren(QPushButton)}
    assert not buttons["Show log"].isEnabled()
    with qtbot.waitSignal(dialog.shown) as shown:
        buttons["Show data folder"].click()
    assert shown.args == [tmp_path]


def test_what_is_not_there_is_not_opened(tmp_path):
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
