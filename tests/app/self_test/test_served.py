"""The self-test's report of a local server that answers, refuses, dies or hangs."""

import json
import sys

import pytest

from app.self_test.served import ask_server

SERVER = """
import json, os
from http.server import BaseHTTPRequestHandler, HTTPServer
class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert asked["response_format"]["json_schema"]["schema"]["required"] == ["capital"]
        self.send_response(STATUS)
        self.end_headers()
        message = {"content": os.environ["ANSWER"]}
        self.wfile.write(json.dumps({"choices": [{"message": message}]}).encode())
    def log_message(self, *words):
        pass
server = HTTPServer(("127.0.0.1", 0), Handler)
print(f"It answers at http://127.0.0.1:{server.server_port} with tiny.", flush=True)
server.handle_request()
"""


def ask(program, answer="", *, seconds=60.0):
    command = (sys.executable, "-c", program)
    return ask_server({"ANSWER": answer}, command=command, seconds=seconds)


def test_an_answer_by_the_schema():
    text = json.dumps({"capital": "Paris"})
    served = ask(SERVER.replace("STATUS", "200"), text)
    assert (served.text, served.failure) == (text, "")


@pytest.mark.parametrize("answer", ["It is Paris.", "{}", "[]", '{"capital": 1}'])
def test_an_answer_that_ignores_the_schema(answer):
    assert ask(SERVER.replace("STATUS", "200"), answer).failure


def test_an_answer_that_breaks_off():
    program = SERVER.replace("STATUS)", '200)\n        self.send_header("Content-Length", "999")')
    assert ask(program, '{"capital": "Paris"}').failure


def test_a_refusal_is_reported_in_its_words():
    assert "no memory" in ask(SERVER.replace("STATUS", "503"), "no memory").failure


def test_a_server_that_ends_is_reported_with_its_last_line():
    assert "no such module" in ask("raise SystemExit('no such module')").failure


def test_a_server_that_hangs_is_ended():
    assert ask("import time; time.sleep(3600)", seconds=0.5).failure
