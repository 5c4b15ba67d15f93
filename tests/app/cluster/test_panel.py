"""The dialog of several Macs says what was found and how each is, and passes on what is done."""

import json
from collections.abc import Callable

import pytest

from app.cluster.panel import MacsPanel
from engine.cluster.states import RankState
from engine.process.protocol import Macs, Ranks
from tests.support.app.fake_commands import FakeCommandRunner
from tests.support.app.window_maker import OFFSCREEN_COMPLAINTS

pytestmark = pytest.mark.qt_log_ignore(*OFFSCREEN_COMPLAINTS)
REFUSED = ("mini.local: Permission denied.", "Let this Mac in.")
READY = (
    RankState(0, "localhost", "ready", "M3", free_bytes=86_000_000_000),
    RankState(1, "mini.local", "ready", "M4", free_bytes=52_000_000_000),
)


@pytest.fixture
def hosts(tmp_path):
    path = tmp_path / "macs.json"
    names = ("localhost", "mini.local")
    path.write_text(json.dumps([{"ssh": name, "ips": ["192.168.0.1"]} for name in names]))
    return path


class Panel:
    """A window with the dialog over it. Attributes: `window`, `panel`, `macs`, `commands`."""

    def __init__(self, window, commands):
        self.window, self.commands = window, commands
        self.macs = window.application.macs
        window.menus.actions["macs"].trigger()
        panel = window.findChild(MacsPanel)
        assert panel is not None
        self.panel = panel

    @property
    def check(self):
        """The newest."""
        return self.commands.started[-1]

    @property
    def report(self):
        return self.panel.report.toPlainText()

    def ask(self, text):
        self.window.composer.set_text(text)
        self.window.composer.send()


OpenPanel = Callable[..., Panel]


@pytest.fixture
def open_panel(open_window, until):
    def open_panel(steps="ready take load serve"):
        commands = FakeCommandRunner()
        window = open_window(steps, cluster=commands)
        until(lambda: window.loader.loaded)
        return Panel(window, commands)

    return open_panel


def test_it_says_how_to_begin_and_a_chosen_file_is_checked_at_once(open_panel, hosts):
    shown = open_panel()
    assert not shown.panel.switch.isEnabled()
    assert not shown.panel.check.isEnabled()
    assert "ssh-copy-id" in shown.report
    shown.window.menus.actions["macs"].trigger()
    assert len(shown.window.findChildren(MacsPanel)) == 1
    buttons = (shown.panel.switch, shown.panel.choose, shown.panel.check, shown.panel.report)
    assert all(each.accessibleName() or each.text() for each in buttons)
    shown.macs.choose(hosts)
    assert shown.window.application.settings.hosts_file == str(hosts)
    assert shown.panel.file.toolTip() == str(hosts)
    assert shown.check.words == ("check", "--json", "--hosts", str(hosts))
    assert not shown.panel.check.isEnabled()
    first = shown.check
    shown.macs.check()
    assert first.dropped
    first.answer()
    assert shown.macs.checking, "the answer of an older check counts no more"
    shown.check.tell(Ranks(READY))
    shown.check.answer()
    assert "mini.local: ready" in shown.report
    assert "52.0 GB" in shown.report
    assert shown.panel.check.isEnabled()
    shown.panel.check.click()
    shown.check.fail(*REFUSED)
    assert shown.report == " ".join(REFUSED)
    shown.panel.check.click()
    assert shown.macs.finding is None


def test_the_engine_uses_them_and_stops_using_them(open_panel, hosts, until):
    shown = open_panel(
        "ready take load take begin ranks:ready:loading ranks:working:ready load rest "
        "-- ready serve"
    )
    loader = shown.window.loader
    shown.macs.choose(hosts)
    shown.panel.switch.click()
    assert shown.check.dropped
    until(lambda: loader.loaded and loader.loaded.macs == Macs(str(hosts)))
    assert shown.panel.line.tone == "good"
    assert "layers 8–15, 21.4 GB needed" in shown.report
    assert not shown.panel.check.isEnabled()
    shown.panel.switch.click()
    until(lambda: loader.loaded and loader.loaded.macs == Macs())
    assert shown.panel.line.tone == "muted"


@pytest.mark.parametrize("on", [True, False])
@pytest.mark.quick(1)
def test_they_are_used_and_left_when_the_answer_has_ended(open_panel, hosts, until, tmp_path, on):
    go = tmp_path / "go"
    answer = f"take text:a wait:{go} done"
    steps = f"ready take load {answer} take load rest"
    if not on:
        steps = f"ready take load take load {answer} rest -- ready serve"
    shown = open_panel(steps)
    shown.macs.choose(hosts)
    if not on:
        shown.panel.switch.click()
        until(lambda: shown.macs.loaded)
    before = shown.panel.line.text
    shown.ask("Hello")
    until(lambda: shown.window.application.answers.busy)
    shown.panel.switch.click()
    assert shown.macs.waiting
    assert shown.panel.line.text != before
    go.touch()
    wanted = str(hosts) if on else ""
    loader = shown.window.loader
    until(lambda: loader.loaded and loader.loaded.macs.hosts == wanted)
    assert shown.macs.loaded is on


def test_a_lost_mac_is_named_in_one_line_and_the_chat_goes_on(open_panel, hosts, until):
    shown = open_panel(
        "ready take load take ranks:ready:ready load take text:a lost "
        "-- ready take ranks:ready:ready load serve"
    )
    window, notices = shown.window, set[str]()
    window.application.readiness.matter_changed.connect(
        lambda matter: notices.update(window.application.readiness.matters.values())
    )
    shown.macs.choose(hosts)
    shown.panel.switch.click()
    until(lambda: shown.macs.loaded)
    first = window.engine.pid
    shown.ask("Hello")
    until(lambda: window.engine.pid not in (0, first) and shown.macs.loaded)
    assert any("mac-1.local" in text for text in notices)
    assert "mac-1.local: ready" in shown.report
    assert not {"engine", "macs"} & window.notices.texts.keys()
    shown.ask("And now?")
    until(lambda: len(window.conversation.branch) == 4)
    until(lambda: window.conversation.branch[-1].content == "served")


@pytest.mark.slow
def test_macs_that_cannot_be_joined_offer_the_way_out(open_panel, hosts, until):
    shown = open_panel(
        "ready take load take begin ranks:starting:starting failed rest "
        "-- ready take begin failed rest -- ready serve"
    )
    window = shown.window
    shown.macs.choose(hosts)
    shown.panel.switch.click()
    until(lambda: shown.macs.finding)
    assert shown.panel.switch.failed
    assert "It does not work." in shown.report
    assert "No model" in window.notices.texts["macs"]
    shown.panel.check.click()
    until(lambda: not shown.macs.finding)
    until(lambda: shown.macs.finding)
    shown.panel.switch.click()
    until(lambda: window.loader.loaded and window.loader.loaded.macs == Macs())
    assert "macs" not in window.notices.texts
