"""The dialog of several Macs says what was found and how each is, and passes on what is done; also
with a real engine and two ranks on this machine."""

import json

import psutil
import pytest

from app.cluster.panel import MacsPanel
from app.cluster.several_macs import cluster_command
from app.commands import CommandRunner
from app.engine_client.engine_process import host_command
from engine.cluster.states import RankState
from engine.process.protocol import Macs, Ranks
from engine.request import Request, Sampling
from tests.support.app.fake_commands import FakeCommandRunner
from tests.support.app.window_maker import OFFSCREEN_COMPLAINTS
from tests.support.app.window_use import answered, part, send, texts

pytestmark = pytest.mark.qt_log_ignore(*OFFSCREEN_COMPLAINTS)
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
        self.panel = part(window, MacsPanel)

    @property
    def check(self):
        return self.commands.started[-1]

    @property
    def report(self):
        return self.panel.report.toPlainText()


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
    shown.check.fail("mini.local: Permission denied.", "Let this Mac in.")
    assert shown.report == "mini.local: Permission denied. Let this Mac in."
    shown.panel.check.click()
    assert shown.macs.finding is None


def test_they_are_used_when_the_answer_has_ended_and_left(open_panel, hosts, until, tmp_path):
    go = tmp_path / "go"
    joins = "take begin ranks:ready:loading ranks:working:ready load"
    shown = open_panel(f"ready take load take text:a wait:{go} done {joins} rest -- ready serve")
    loader = shown.window.loader

    def uses(file):
        return loader.loaded and loader.loaded.macs.hosts == file

    shown.macs.choose(hosts)
    before = shown.panel.line.text
    send(shown.window, "Hello")
    until(lambda: shown.window.application.answers.busy)
    shown.panel.switch.click()
    assert shown.macs.waiting
    assert shown.panel.line.text != before
    go.touch()
    until(lambda: uses(str(hosts)))
    assert shown.macs.loaded
    assert shown.check.dropped
    assert shown.panel.line.tone == "good"
    assert "layers 8–15, 21.4 GB needed" in shown.report
    assert not shown.panel.check.isEnabled()
    shown.panel.switch.click()  # at once, as nothing is written
    until(lambda: uses(""))
    assert shown.panel.line.tone == "muted"


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
    send(window, "Hello")
    until(lambda: window.engine.pid not in (0, first) and shown.macs.loaded)
    assert any("mac-1.local" in text for text in notices)
    assert "mac-1.local: ready" in shown.report
    assert not {"engine", "macs"} & window.notices.texts.keys()
    send(window, "And now?")
    until(lambda: texts(window)[3:] == ["served"])


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


@pytest.mark.slow
def test_two_ranks_are_checked_used_lost_and_used_again(
    open_window, until, tiny_folder, tmp_path, monkeypatch
):
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    cluster = CommandRunner(cluster_command())
    window = open_window(host_command(), target=tiny_folder, cluster=cluster)
    until(lambda: window.loader.loaded)
    hosts = tmp_path / "macs.json"
    hosts.write_text(json.dumps([{"ssh": "127.0.0.1", "ips": ["127.0.0.1"]}] * 2))
    macs = window.application.macs
    window.menus.actions["macs"].trigger()
    panel = part(window, MacsPanel)
    macs.choose(hosts)
    until(lambda: not macs.checking)
    assert macs.finding is None
    assert all(rank.chip and rank.free_bytes for rank in macs.ranks)
    panel.switch.click()
    until(lambda: macs.loaded)
    first, second = (rank.layers for rank in macs.ranks)
    assert (first[1], second[0], first[0]) == (4, 0, second[1])  # by what memory is free
    assert all(rank.needed_bytes for rank in macs.ranks)
    greedy = Sampling(temperature=0.0, logit_bias={256: -1000.0})
    long = Request(sampling=greedy, max_tokens=3000)
    window.conversation.configure(system_prompt="", settings=long)
    send(window, "Tell me a story.")
    until(lambda: window.conversation.writing and window.conversation.writing.text)
    first = window.engine.pid
    below = psutil.Process(first).children(recursive=True)
    (follower,) = (each for each in below if each.environ().get("MLX_RANK") == "1")
    follower.kill()
    until(lambda: "engine" in window.notices.texts)
    assert "rank 1" in window.notices.texts["engine"]
    until(lambda: window.engine.pid not in (0, first) and macs.loaded)
    assert "engine" not in window.notices.texts
    short = Request(sampling=greedy, max_tokens=8)
    window.conversation.configure(system_prompt="", settings=short)
    send(window, "And now?")
    until(answered(window, 4))
    assert texts(window)[3]
    others = psutil.Process(window.engine.pid).children(recursive=True)
    panel.switch.click()
    until(lambda: window.loader.loaded and not window.loader.loaded.macs.hosts)
    until(lambda: not any(each.is_running() for each in others))
    assert macs.finding is None
