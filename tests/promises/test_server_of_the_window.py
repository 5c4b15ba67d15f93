"""The local server itself, between a program on this machine and the window's engine."""

import json
import socket
from concurrent.futures import ThreadPoolExecutor
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

import pytest

from app.engine_client.engine_process import host_command
from app.server.local_server import ServerState, server_command
from engine.request import ChatMessage
from engine.request import Request as AnswerRequest
from engine.server.status import ClientStatus
from tests.support.app.engine_listener import TIMEOUT_SECONDS
from tests.support.app.served import Served

SERVING = "ready take load serve"
REQUEST = AnswerRequest(max_tokens=8)
OPENER = build_opener(ProxyHandler({}))  # loopback, whatever the environment says


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class RealServer:
    """Attributes: `one`, with the real program for its server; `server`."""

    def __init__(self, one, monkeypatch):
        self.one, self.server = one, one.server
        monkeypatch.setattr(one.server, "_command", server_command())
        one.settings.server_port = free_port()
        self._pool = ThreadPoolExecutor(4)

    def start(self):
        self.server.switch(True)
        self.one.until(lambda: self.server.state is ServerState.ON)
        self.until_ready()
        return self.server

    def until_ready(self):
        """Wait until it says itself that it can answer: it reads later what the window hears."""
        self.one.until(self._is_ready)

    def _is_ready(self):
        try:
            with OPENER.open(f"{self.server.status.address}/health", timeout=TIMEOUT_SECONDS):
                return True
        except HTTPError as error:
            with error:
                return False

    def ask(self, text, *, key=None, **fields):
        """Ask for a chat's answer, in a thread; its body, or the error's status."""
        request = Request(
            f"{self.server.status.address}/v1/chat/completions",
            json.dumps({"messages": [{"role": "user", "content": text}], **fields}).encode(),
            {
                "Content-Type": "application/json",
                "Authorization": f"Bearer {self.server.key if key is None else key}",
                "User-Agent": "Zed/1.0",
            },
        )

        def send():
            try:
                with OPENER.open(request, timeout=TIMEOUT_SECONDS) as reply:
                    return json.load(reply)
            except HTTPError as error:
                with error:
                    return error.code

        return self._pool.submit(send)

    def close(self):
        self._pool.shutdown()


@pytest.fixture
def real(serve, monkeypatch, request):
    """One whose engine takes the steps that the test is parametrized with, or serves."""
    made = RealServer(serve(getattr(request, "param", SERVING), ""), monkeypatch)
    yield made
    made.server.close()
    made.close()


def text_of(answer):
    return str(answer["choices"][0]["message"]["content"])


@pytest.mark.slow
@pytest.mark.parametrize(
    "real", ["ready take load take text:a reading:5:20 text:b take"], indirect=True
)
def test_a_request_is_followed_by_its_generation(real):
    server = real.start()
    answer = real.ask("hello")
    real.one.until(lambda: server.status.requests and server.status.requests[0].state != "waiting")
    (request,) = server.status.requests
    assert (request.endpoint, request.client) == ("/chat/completions", "Zed")
    server.switch(False)
    real.one.until_state(ServerState.OFF)
    assert len(real.one.engine.cancelled) == 1
    real.one.until(answer.done)
    assert answer.exception() or answer.result() == 503


@pytest.mark.parametrize("real", ["ready take load take text:a kill -- ready serve"], indirect=True)
def test_the_engines_death_is_an_error_and_no_end(real):
    server = real.start()
    failed = real.ask("hello")
    real.one.until(failed.done)
    assert failed.result() in (500, 503)
    real.one.heard.until_told("loaded", 2)
    real.until_ready()
    again = real.ask("hello")
    real.one.until(again.done)
    assert text_of(again.result()) == "served"
    assert server.state is ServerState.ON


@pytest.mark.slow
def test_a_taken_port_is_said(real):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        real.one.settings.server_port = taken.getsockname()[1]
        real.server.switch(True)
        real.one.until_state(ServerState.FAILED)
        assert str(real.one.settings.server_port) in real.server.problem
        assert "--port" not in real.server.problem
    real.one.until(lambda: real.server.pid == 0)
    real.start()


def test_the_whole_way_to_a_model_and_back_for_those_with_the_key(
    qtbot, tmp_path, tiny_folder, monkeypatch
):
    one = Served(qtbot, tmp_path, "", "", command=host_command(), model=tiny_folder)
    real = RealServer(one, monkeypatch)
    try:
        server = real.start()
        refused = real.ask("hello", key="wrong-key-of-some-length")
        answers = [real.ask("hello", max_tokens=8) for _ in range(2)]
        own = one.engine.generate("chat", [ChatMessage("user", "Hello.")], REQUEST)
        one.heard.end_of(own)
        one.until(lambda: refused.done() and all(answer.done() for answer in answers))
        assert refused.result() == 401
        for answer in answers:
            assert answer.result()["usage"]["completion_tokens"] <= 8
        one.until(lambda: server.status.clients == (ClientStatus("Zed", 2),))
        one.until(lambda: not server.status.requests)
        assert server.pid
    finally:
        server.close()
        one.engine.stop()
        real.close()
    assert server.pid == 0, "it ends with the window"
