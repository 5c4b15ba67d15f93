"""`slipstream serve`, as far as it needs no server."""

from typer.testing import CliRunner

from engine.cli.main import app
from engine.cli.serve import DEFAULT_PORT
from engine.server.clients import client_setups


def test_help_has_the_lines_to_copy() -> None:
    printed = CliRunner().invoke(app, ["serve", "--help"], env={"COLUMNS": "200"}).output
    for setup in client_setups(f"http://127.0.0.1:{DEFAULT_PORT}", "MODEL", key="KEY"):
        for line in setup.lines.splitlines():
            assert line.rstrip() in printed
    assert "--attached" not in printed
