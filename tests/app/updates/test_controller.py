"""When the feed is asked, with a real process and a real listener; and what the window shows."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from PySide6.QtCore import QSettings, Qt
from PySide6.QtWidgets import QApplication, QLabel

from app.commands import CommandRunner
from app.settings import Settings
from app.updates.controller import DAY_SECONDS, UpdateController
from app.updates.feed import PUBLIC_KEY as OUR_KEY
from app.updates.feed import Origin, Release
from app.updates.presenter import UpdateDialog, UpdatePresenter, check_command
from models.errors import Problem
from tests.support.app.feed_server import (
    NOW,
    PUBLIC_KEY,
    RELEASE,
    FeedServer,
    made_feed,
    nobody_there,
    serving,
)
from tests.support.app.window_maker import (
    OFFSCREEN_COMPLAINTS,
    Open,
    OpenWindows,
    Until,
    windows_of,
)

pytestmark = pytest.mark.qt_log_ignore(*OFFSCREEN_COMPLAINTS)
START = 1_800_000_000.0


class Heard:
    """What a controller says; and the time it is told it is."""

    def __init__(self, settings: Settings, address: str) -> None:
        self.now = START
        self.said: list[object] = []
        self.started = 0
        commands = CommandRunner(check_command())
        start = commands.start

        def count(*words: str) -> object:
            self.started += 1
            return start(*words)

        commands.start = count  # type: ignore[assignment, method-assign]
        self.settings = settings
        self.controller = UpdateController(
            settings,
            origin=Origin(address, PUBLIC_KEY.hex()),
            commands=commands,
            clock=lambda: self.now,
        )
        self._commands = commands
        self.controller.found.connect(lambda release, asked: self.said.append((release, asked)))
        self.controller.current.connect(lambda: self.said.append("current"))
        self.controller.failed.connect(self.said.append)

    @property
    def idle(self) -> bool:
        return not self.controller.checking


Listen = Callable[[str], Heard]


@pytest.fixture
def server() -> Iterator[FeedServer]:
    with serving(made_feed()) as server:
        yield server


@pytest.fixture
def listen(qapp: QApplication, tmp_path: Path) -> Iterator[Listen]:
    heard: list[Heard] = []

    def listen(address: str) -> Heard:
        stored = QSettings(str(tmp_path / "settings.ini"), QSettings.Format.IniFormat)
        heard.append(Heard(Settings(stored), address))
        return heard[-1]

    yield listen
    for one in heard:
        one.controller.close()


def test_once_a_day(server: FeedServer, listen: Listen, until: Until) -> None:
    heard = listen(server.address)
    heard.controller.check_if_due()
    until(lambda: heard.said)
    assert heard.said == [(RELEASE, False)]
    assert heard.controller.release == RELEASE
    heard.now += DAY_SECONDS - 1
    heard.controller.check_if_due()
    assert heard.idle
    heard.now += 1
    heard.controller.check_if_due()
    until(lambda: heard.idle)
    assert len(server.asked) == 2
    heard.now = START - 1000  # the clock was put back
    heard.controller.check_if_due()
    until(lambda: heard.idle)
    assert len(server.asked) == 3


def test_opting_out_makes_no_connection(server: FeedServer, listen: Listen) -> None:
    heard = listen(server.address)
    heard.controller.automatic = False
    assert not heard.settings.automatic_updates
    heard.controller.check_if_due()
    assert (heard.started, server.connections) == (0, 0)


def test_without_a_feed_nothing_is_requested(listen: Listen) -> None:
    for address in (Origin().address, "", "https://[", "https://a.invalid/feed"):
        heard = listen(address)
        heard.controller.check_if_due()
        heard.controller.check()
        assert heard.started == 0
        assert isinstance(heard.said[0], Problem)
    assert not Origin().configured
    assert len(bytes.fromhex(OUR_KEY)) == 32


def test_a_check_on_request_ignores_opting_out_and_the_last_check(
    server: FeedServer, listen: Listen, until: Until
) -> None:
    heard = listen(server.address)
    heard.controller.automatic = False
    heard.settings.updates_checked = START
    heard.controller.check()
    heard.controller.check()  # impatient: one process is enough
    until(lambda: heard.said)
    assert heard.said == [(RELEASE, True)]
    assert heard.started == 1


def test_an_offline_day_is_silent_unless_asked(listen: Listen, until: Until) -> None:
    heard = listen(nobody_there())
    heard.controller.check_if_due()
    until(lambda: heard.idle)
    assert (heard.started, heard.said) == (1, [])
    heard.controller.check()
    until(lambda: heard.said)
    (problem,) = heard.said
    assert isinstance(problem, Problem)


def test_no_newer_version_is_reported_on_request_only(
    server: FeedServer, listen: Listen, until: Until
) -> None:
    server.data = made_feed(release=replace(RELEASE, version="0.0.1"))
    heard = listen(server.address)
    heard.controller.check_if_due()
    until(lambda: heard.idle)
    assert heard.said == []
    heard.controller.check()
    until(lambda: heard.said)
    assert heard.said == ["current"]
    assert heard.controller.release is None


def test_an_older_feed_is_refused_after_a_newer_one(
    server: FeedServer, listen: Listen, until: Until
) -> None:
    listen(server.address).controller.check()
    heard = listen(server.address)  # another start, with the same settings
    heard.controller.check()
    until(lambda: heard.said)
    server.data = made_feed(made=NOW - timedelta(days=1))
    heard.controller.check()
    until(lambda: len(heard.said) == 2)
    assert isinstance(heard.said[-1], Problem)
    assert "older" in heard.said[-1].message


def test_malformed_settings_are_ignored(tmp_path: Path) -> None:
    stored = QSettings(str(tmp_path / "settings.ini"), QSettings.Format.IniFormat)
    settings = Settings(stored)
    assert settings.automatic_updates
    for name in ("checked", "newest_feed"):
        stored.setValue(f"updates/{name}", "often")
    assert (settings.updates_checked, settings.newest_feed) == (0.0, "")


# The window


def test_the_window_announces_and_shows_a_release(
    server: FeedServer, open_window: Open, until: Until
) -> None:
    window = open_window()
    updates = UpdatePresenter(windows_of(window), origin=Origin(server.address, PUBLIC_KEY.hex()))
    updates.controller.check_if_due()
    until(lambda: "update" in window.notices.texts)
    assert "9.8.7" in window.notices.texts["update"]
    window.notices.press("update")
    (dialog,) = window.findChildren(UpdateDialog)
    assert dialog.isVisible()
    dialog.close()
    updates.controller.close()


def test_the_menu_checks_and_switches(server: FeedServer, open_window: Open, until: Until) -> None:
    server.data = made_feed(release=replace(RELEASE, version="0.0.1"))
    window = open_window()
    updates = UpdatePresenter(windows_of(window), origin=Origin(server.address, PUBLIC_KEY.hex()))
    automatic = window.menus.actions["automatic_updates"]
    assert automatic.isChecked()
    automatic.trigger()
    assert not window.settings.automatic_updates
    window.menus.actions["updates"].trigger()
    until(lambda: "update" in window.notices.texts)
    assert updates.controller.version in window.notices.texts["update"]
    updates.controller.close()


def test_without_a_feed_there_is_nothing_to_check(open_window: Open) -> None:
    window = open_window()
    updates = UpdatePresenter(windows_of(window), origin=Origin())
    for name in ("updates", "automatic_updates"):
        assert not window.menus.actions[name].isVisible()
    updates.controller.close()


def test_every_window_shows_whether_it_checks_by_itself(open_windows: OpenWindows) -> None:
    windows = open_windows()
    first = windows.current
    updates = UpdatePresenter(windows, origin=Origin("https://example.org/feed", "00"))
    second = windows.open()
    assert second.menus.actions["updates"].isVisible()
    second.menus.actions["automatic_updates"].trigger()
    assert not first.menus.actions["automatic_updates"].isChecked()
    assert not windows.application.settings.automatic_updates
    updates.controller.close()


def test_the_dialog_shows_plain_text_and_opens_the_page(qapp: QApplication) -> None:
    opened: list[str] = []
    release: Release = replace(RELEASE, notes="<b>New</b>\nand \u202egnp.exe")
    dialog = UpdateDialog(release, version="0.1.0", opening=opened.append)
    labels = dialog.findChildren(QLabel)
    shown = " ".join(label.text() for label in labels)
    announced = [label for label in labels if label.text() not in ("Page", "Size", "SHA-256")]
    assert {label.textFormat() for label in announced} == {Qt.TextFormat.PlainText}
    for text in (RELEASE.version, "0.1.0", RELEASE.page, "110 MB", RELEASE.sha256):
        assert text in shown
    assert dialog.notes.toPlainText() == "<b>New</b>\nand gnp.exe"
    dialog.button.click()
    assert opened == [RELEASE.page]
    dialog.deleteLater()
