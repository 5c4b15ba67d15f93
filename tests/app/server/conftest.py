"""Local servers with a fake process, and engines with another, and no window."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from tests.support.app.served import Serve, Served


@pytest.fixture
def serve(qtbot: QtBot, tmp_path: Path) -> Iterator[Serve]:
    """Begins with an engine and a server that take these steps; the server is off."""
    served: list[Served] = []

    def serve(steps: str, server: str) -> Served:
        served.append(Served(qtbot, tmp_path, steps, server))
        return served[-1]

    yield serve
    for one in served:
        one.server.close()
        one.engine.stop()
        assert one.server.pid == 0
