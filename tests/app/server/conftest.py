"""Local servers with a fake process, and engines with another, and no window."""

import pytest

from tests.support.app.served import Served


@pytest.fixture
def serve(qtbot, tmp_path):
    """Begins with an engine and a server that take these steps; the server is off."""
    served = []

    def serve(steps, server):
        served.append(Served(qtbot, tmp_path, steps, server))
        return served[-1]

    yield serve
    for one in served:
        one.server.close()
        one.engine.stop()
        assert one.server.pid == 0
