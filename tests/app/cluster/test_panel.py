"""The panel of several Macs shows what was found and how each is, and passes on what is done."""

import json
from collections.abc import Callable
from pathlib import Path
from threading import Event

import pytest
from PySide6.QtCore import QSettings
from pytestqt.qtbot import QtBot

from app.cluster import several_macs
from app.cluster.panel import MacsPanel
from app.settings import Pair, Settings
from app.window import Window
from engine.cluster.hosts import Hosts
from engine.cluster.states import RankState
from engine.process.protocol import Macs, Ranks
from models.errors import Problem
from tests.support.app.fake_commands import FakeCommand, FakeCommandRunner
from tests.support.app.window_maker import OFFSCREEN_COMPLAINTS, Open, Until, windows_of

pytestmark = pytest.mark.qt_log_ignore(*OFFSCREEN_COMPLAINTS)
REFUSED = ("mini.local: Permission denied.", "Let this Mac in.")
READY = [
    RankState(0, "localhost", "ready", "M3", free_bytes=86_000_000_000),
    RankState(1, "mini.local", "ready", "M4", free_bytes=52_000_000_000),
]
OPEN = [
    RankState(0, "localhost", "starting", "M3"),
    RankState(1, "mini.local", "starting", "M4", open_network="192.168.1.9/24"),
]


@pytest.fixture
def hosts(tmp_path: Path) -> Path:
    path = tmp_path / "macs.json"
    names = ("localhost", "mini.local")
    path.write_text(json.dumps([{"ssh": name, "ips": ["192.168.0.1"]} for name in names]))
    return path


class Panel:
    """A window with the panel over it. Attributes: `window`, `panel`, `macs`, `commands`."""

    def __init__(self, window: Window, commands: FakeCommandRunner, until: Until) -> None:
        self.window, self.commands, self.until = window, commands, until
        self.macs = window.application.macs
        window.menus.actions["macs"].trigger()
        panel = window.findChild(MacsPanel)
        assert panel is not None
        self.panel = panel

    @property
    def check(self) -> FakeCommand:
        """The newest."""
        return self.commands.started[-1]

    def choose(self, hosts: Path) -> None:
        """Take this file, and wait until it has been read."""
        self.macs.choose(hosts)
        self.until(lambda: self.macs.names or self.macs.finding)

    def answer_begins(self) -> None:
        self.window.composer.set_text("Hello")
        self.window.composer.send()
        self.until(lambda: self.window.application.answers.busy)

    def tell(self, ranks: list[RankState]) -> None:
        self.check.tell(Ranks(tuple(ranks)))

    @property
    def states(self) -> list[str]:
        return [card.accessibleName().split(", ")[1] for card in self.panel.macs.cards]

    @property
    def findings(self) -> list[str]:
        """Of each step, what was found or is to be done."""
        return [row.accessibleDescription() for row in self.panel.steps]

    @property
    def now(self) -> int:
        """The step that comes next, from 1; 5 after the last."""
        done = [": " in row.accessibleName() and ", done:" in row.accessibleName()
                for row in self.panel.steps]  # fmt: skip
        return [*done, False].index(False) + 1


OpenPanel = Callable[..., Panel]


@pytest.fixture
def open_panel(open_window: Open, until: Until) -> OpenPanel:
    def open_panel(steps: str = "ready take load serve") -> Panel:
        commands = FakeCommandRunner()
        window = open_window(steps, cluster=commands)
        until(lambda: window.loader.loaded)
        return Panel(window, commands, until)

    return open_panel


def test_without_a_file_there_is_nothing_to_switch(open_panel: OpenPanel) -> None:
    shown = open_panel()
    assert not shown.panel.switch.isEnabled()
    assert not shown.panel.check.isEnabled()
    assert shown.panel.macs.cards == []
    assert shown.now == 1


def test_a_chosen_file_is_checked_at_once(open_panel: OpenPanel, hosts: Path, until: Until) -> None:
    shown = open_panel()
    shown.choose(hosts)
    assert shown.window.application.settings.hosts_file == str(hosts)
    assert shown.check.words == ("check", "--json", "--hosts", str(hosts))
    assert shown.states == ["Connecting…", "Connecting…"]
    assert not shown.panel.check.isEnabled()
    shown.tell(READY)
    shown.check.answer()
    assert shown.states == ["Ready", "Ready"]
    assert "52.0 GB" in shown.panel.macs.cards[1].accessibleDescription()
    assert shown.now == 4
    shown.panel.check.click()
    until(lambda: len(shown.commands.started) == 2)


def test_a_slow_disk_holds_nothing_up(
    open_panel: OpenPanel, hosts: Path, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, go = several_macs.read_hosts, Event()

    def slow(path: Path) -> Hosts:
        assert go.wait(60)
        return read(path)

    shown = open_panel()
    monkeypatch.setattr(several_macs, "read_hosts", slow)
    shown.macs.choose(hosts)
    assert shown.macs.checking
    assert shown.commands.started == []
    go.set()
    until(lambda: shown.commands.started)


def test_what_a_check_finds_is_said_at_its_step(open_panel: OpenPanel, hosts: Path) -> None:
    shown = open_panel()
    shown.choose(hosts)
    shown.tell([RankState(0, "localhost", "starting"), RankState(1, "mini.local", "lost")])
    shown.check.fail(*REFUSED)
    assert shown.now == 2
    assert shown.findings[1] == " ".join(REFUSED)
    assert shown.states == ["Not joined", "Not reached"]


def test_a_file_that_names_no_macs_is_said(open_panel: OpenPanel, tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    path.write_text("[]")
    shown = open_panel()
    shown.choose(path)
    assert shown.commands.started == []
    assert shown.now == 1
    assert str(path) in shown.findings[0]
    assert not shown.panel.switch.isEnabled()


def test_the_answer_of_an_older_check_is_not_shown(open_panel: OpenPanel, hosts: Path) -> None:
    shown = open_panel()
    shown.choose(hosts)
    first = shown.check
    shown.macs.check()
    assert first.dropped
    first.answer()
    assert shown.macs.checking


def test_an_open_network_is_asked_about_and_nobody_is_trusted_before(
    open_panel: OpenPanel, hosts: Path, until: Until, tmp_path: Path
) -> None:
    shown = open_panel()
    question = shown.panel.trust
    shown.choose(hosts)
    assert not question.isVisible()
    shown.tell(OPEN)
    shown.check.fail(*REFUSED)
    assert question.isVisible()
    assert "192.168.1.9/24" in question.accessibleDescription()
    assert "encryption" in question.accessibleDescription()
    assert not shown.macs.trusted
    assert shown.now == 3
    assert "--trust-network" not in shown.findings[2]
    question.trust.click()
    until(lambda: shown.check.words[-1] == "--trust-network")
    shown.tell(OPEN)
    assert question.distrust.isVisible()
    assert not question.trust.isVisible()
    shown.check.answer()
    question.distrust.click()
    until(lambda: "--trust-network" not in shown.check.words)
    question.trust.click()
    other = tmp_path / "other.json"
    other.write_bytes(hosts.read_bytes())
    shown.choose(other)
    assert not shown.macs.trusted, "of other Macs that is asked again"


def test_the_engine_uses_them_and_stops_using_them(
    open_panel: OpenPanel, hosts: Path, until: Until
) -> None:
    shown = open_panel(
        "ready take load take begin ranks:ready:loading ranks:working:ready load rest "
        "-- ready serve"
    )
    loader = shown.window.loader
    shown.choose(hosts)
    shown.panel.switch.click()
    assert shown.check.dropped
    until(lambda: loader.loaded and loader.loaded.macs == Macs(str(hosts)))
    assert shown.panel.line.tone == "good"
    assert shown.states == ["Working", "Ready"]
    assert "layers 8–15" in shown.panel.macs.cards[1].accessibleDescription()
    assert "21.4 GB" in shown.panel.macs.cards[1].accessibleDescription()
    assert shown.now == 5
    assert not shown.panel.check.isEnabled()
    shown.panel.switch.click()
    until(lambda: loader.loaded and loader.loaded.macs == Macs())
    assert shown.panel.line.tone == "muted"
    assert shown.states == ["Not connected", "Not connected"]


def test_they_are_used_when_the_answer_has_ended(
    open_panel: OpenPanel, hosts: Path, until: Until, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    shown = open_panel(f"ready take load take text:a wait:{go} done take load rest")
    window = shown.window
    shown.choose(hosts)
    shown.answer_begins()
    shown.panel.switch.click()
    assert shown.macs.waiting
    assert window.loader.loaded is not None
    go.touch()
    until(lambda: window.loader.loaded and window.loader.loaded.macs.hosts == str(hosts))
    assert shown.macs.loaded


def test_a_pair_that_waits_for_the_end_of_the_answer_is_loaded_on_them(
    open_panel: OpenPanel, hosts: Path, until: Until, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    shown = open_panel(f"ready take load take text:a wait:{go} done take load rest")
    window = shown.window
    shown.choose(hosts)
    shown.answer_begins()
    window.application.pairs.use(Pair("/models/better", "auto", "auto"))
    shown.panel.switch.click()
    go.touch()
    until(lambda: shown.macs.loaded)
    assert window.loader.loaded is not None
    assert window.loader.loaded.target == "/models/better"


def test_they_are_left_when_the_answer_has_ended(
    open_panel: OpenPanel, hosts: Path, until: Until, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    shown = open_panel(
        "ready take load take ranks:ready:ready load "
        f"take text:a wait:{go} done rest -- ready serve"
    )
    window, line = shown.window, shown.panel.line
    off = line.text
    shown.choose(hosts)
    alone = line.text
    shown.panel.switch.click()
    until(lambda: shown.macs.loaded)
    shown.answer_begins()
    shown.panel.switch.click()
    assert shown.macs.waiting
    assert line.text not in (off, alone)
    go.touch()
    until(lambda: window.loader.loaded and window.loader.loaded.macs == Macs())
    assert line.text == alone


def test_a_model_that_this_mac_alone_refuses_is_told(
    open_panel: OpenPanel, hosts: Path, until: Until
) -> None:
    shown = open_panel("ready take load take ranks:ready:ready load rest -- ready take failed rest")
    loader, problems = shown.window.loader, list[Problem]()
    loader.failed.connect(problems.append)
    shown.choose(hosts)
    shown.panel.switch.click()
    until(lambda: shown.macs.loaded)
    shown.panel.switch.click()
    until(lambda: problems)
    assert loader.loaded is None, "its process was ended"
    assert loader.problem is problems[0]
    assert shown.window.pair_bar.status == "failed"


def test_a_file_that_could_not_be_read_once_is_forgotten(
    open_panel: OpenPanel, hosts: Path, until: Until, tmp_path: Path
) -> None:
    written = hosts.read_text()
    hosts.unlink()
    settings = Settings(QSettings(str(tmp_path / "settings.ini"), QSettings.Format.IniFormat))
    settings.hosts_file, settings.hosts_used = str(hosts), True
    settings.save()
    shown = open_panel("ready take ranks:ready:ready load rest -- ready serve")
    assert shown.macs.loaded
    assert shown.macs.finding is None
    assert shown.panel.line.tone == "good"
    assert shown.now == 5
    assert "macs" not in shown.window.notices.texts
    hosts.write_text(written)
    shown.panel.switch.click()
    until(lambda: shown.macs.names == ("localhost", "mini.local"))
    assert shown.macs.finding is None
    assert shown.panel.switch.isEnabled()


def test_a_lost_mac_is_named_in_one_line_and_the_chat_goes_on(
    open_panel: OpenPanel, hosts: Path, until: Until
) -> None:
    shown = open_panel(
        "ready take load take ranks:ready:ready load take text:a lost "
        "-- ready take ranks:ready:ready load serve"
    )
    window = shown.window
    lines: list[tuple[str, str]] = []
    shown.macs.changed.connect(lambda: lines.append((shown.panel.line.text, shown.panel.line.tone)))
    notices: set[str] = set()
    window.application.readiness.matter_changed.connect(
        lambda matter: notices.update(window.application.readiness.matters.values())
    )
    shown.choose(hosts)
    shown.panel.switch.click()
    until(lambda: shown.macs.loaded)
    first = window.engine.pid
    window.composer.set_text("Hello")
    window.composer.send()
    until(lambda: window.engine.pid not in (0, first) and shown.macs.loaded)
    said = [text for text, tone in lines if tone == "warning"]
    assert said
    assert all("mac-1.local" in text for text in said)
    assert any("mac-1.local" in text for text in notices)
    assert shown.states == ["Ready", "Ready"]
    assert "engine" not in window.notices.texts
    assert "macs" not in window.notices.texts
    window.composer.set_text("And now?")
    window.composer.send()
    until(lambda: len(window.conversation.branch) == 4)
    until(lambda: window.conversation.branch[-1].content == "served")


@pytest.mark.slow
def test_macs_that_cannot_be_joined_offer_the_way_out(
    open_panel: OpenPanel, hosts: Path, until: Until
) -> None:
    shown = open_panel(
        "ready take load take begin ranks:starting:lost failed rest "
        "-- ready take begin failed rest -- ready serve"
    )
    window = shown.window
    shown.choose(hosts)
    shown.panel.switch.click()
    until(lambda: shown.macs.finding)
    assert shown.panel.line.tone == "warning"
    assert shown.panel.switch.failed
    assert shown.now == 2
    assert "It does not work." in shown.findings[1]
    assert "No model" in window.notices.texts["macs"]
    shown.panel.check.click()
    until(lambda: not shown.macs.finding)
    until(lambda: shown.macs.finding)
    shown.panel.switch.click()
    until(lambda: window.loader.loaded)
    assert not window.loader.loaded or window.loader.loaded.macs == Macs()
    assert "macs" not in window.notices.texts


def test_the_next_run_uses_them(open_panel: OpenPanel, hosts: Path, until: Until) -> None:
    shown = open_panel("ready serve")
    settings = shown.window.application.settings
    settings.hosts_file, settings.hosts_used, settings.hosts_trusted = str(hosts), True, True
    assert settings.macs == Macs(str(hosts), trusted=True)
    shown.window.loader.load(shown.window.loader.pair)
    until(lambda: shown.window.loader.loaded and shown.window.loader.loaded.macs == settings.macs)
    settings.hosts_used = False
    assert settings.macs == Macs()


def test_there_is_one_panel(open_panel: OpenPanel) -> None:
    shown = open_panel()
    shown.window.menus.actions["macs"].trigger()
    assert len(shown.window.findChildren(MacsPanel)) == 1
    assert windows_of(shown.window).application.macs is shown.macs


def test_what_can_have_the_focus_has_a_name(open_panel: OpenPanel, qtbot: QtBot) -> None:
    panel = open_panel().panel
    buttons = (panel.switch, panel.choose, panel.make, panel.check)
    assert all(button.accessibleName() or button.text() for button in buttons)


def test_the_whole_path_of_the_file_is_in_a_tool_tip(open_panel: OpenPanel, hosts: Path) -> None:
    shown = open_panel()
    shown.choose(hosts)
    for width in (700, 560):
        shown.panel.resize(width, 680)
        assert shown.panel.file.toolTip() == str(hosts)
