"""The window, its engine and the command that checks, with two ranks on this machine."""

import json

import psutil
import pytest

from app.cluster.panel import MacsPanel
from app.cluster.several_macs import cluster_command
from app.commands import CommandRunner
from app.engine_client.engine_process import host_command
from engine.events import Text
from engine.request import Request, Sampling
from tests.support.app.window_maker import OFFSCREEN_COMPLAINTS, make_window

pytestmark = [pytest.mark.slow, pytest.mark.qt_log_ignore(*OFFSCREEN_COMPLAINTS)]
LONG = Request(sampling=Sampling(temperature=0.0, logit_bias={256: -1000.0}), max_tokens=3000)
SHORT = Request(sampling=Sampling(temperature=0.0), max_tokens=8)


@pytest.fixture
def window(plain_application, tiny_folder, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    window = make_window(
        plain_application,
        tmp_path,
        host_command(),
        target=tiny_folder,
        cluster=CommandRunner(cluster_command()),
    )
    window.show()
    window.begin()
    yield window
    window.close()
    window.deleteLater()
    plain_application.processEvents()


def rank(number, pid):
    """The process of a rank below this one."""
    below = psutil.Process(pid).children(recursive=True)
    (found,) = (each for each in below if each.environ().get("MLX_RANK") == str(number))
    return found


def test_two_ranks_are_checked_used_lost_and_used_again(window, until, tmp_path):
    hosts = tmp_path / "macs.json"
    hosts.write_text(json.dumps([{"ssh": "127.0.0.1", "ips": ["127.0.0.1"]}] * 2))
    until(lambda: window.loader.loaded)
    macs = window.application.macs
    window.menus.actions["macs"].trigger()
    panel = window.findChild(MacsPanel)
    assert panel is not None
    macs.choose(hosts)
    until(lambda: not macs.checking)
    assert macs.finding is None
    assert all(rank.chip and rank.free_bytes for rank in macs.ranks)

    panel.switch.click()
    until(lambda: macs.loaded)
    first, second = (rank.layers for rank in macs.ranks)
    assert (first[1], second[0], first[0]) == (4, 0, second[1])  # by what memory is free
    assert all(rank.needed_bytes for rank in macs.ranks)
    window.conversation.configure(system_prompt="", settings=LONG)
    texts = []
    window.engine.happened.connect(
        lambda event: texts.append(event) if isinstance(event, Text) else None
    )
    window.composer.set_text("Tell me a story.")
    window.composer.send()
    until(lambda: texts)

    follower = rank(1, window.engine.pid)
    follower.kill()
    first = window.engine.pid
    until(lambda: "engine" in window.notices.texts)
    assert "rank 1" in window.notices.texts["engine"]
    until(lambda: window.engine.pid not in (0, first) and macs.loaded)
    assert "engine" not in window.notices.texts
    window.conversation.configure(system_prompt="", settings=SHORT)
    texts.clear()
    window.composer.set_text("And now?")
    window.composer.send()
    until(lambda: texts and not window.answers.busy)

    others = psutil.Process(window.engine.pid).children(recursive=True)
    panel.switch.click()
    until(lambda: window.loader.loaded and not window.loader.loaded.macs.hosts)
    until(lambda: not any(each.is_running() for each in others))
    assert macs.finding is None
