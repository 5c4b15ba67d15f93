"""What the window is told of the server."""

from dataclasses import replace

from engine.server.status import Board, ClientStatus, RequestStatus, ServerStatus

REQUEST = RequestStatus("r", "/chat/completions", "curl")


def test_requests_are_shown_until_they_are_over():
    changes = []
    board = Board(lambda: changes.append(1))
    board.listens("http://127.0.0.1:1")
    board.show(REQUEST)
    assert (board.status.running, board.status.waiting) == (0, 1)
    board.progress("r", state="writing", prompt_tokens=7, tokens=2)
    board.progress("r", state="writing", prompt_tokens=7, tokens=2)
    writing = replace(REQUEST, state="writing", prompt_tokens=7, tokens=2)
    asked = (ClientStatus("curl", 1),)
    assert board.status == ServerStatus("http://127.0.0.1:1", "", 1, 0, (writing,), asked)
    board.remove("r")
    board.remove("r")
    board.progress("r", tokens=9)
    assert board.status == ServerStatus("http://127.0.0.1:1", clients=asked)
    assert len(changes) == 4
