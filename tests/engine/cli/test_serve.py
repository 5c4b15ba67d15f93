"""`slipstream serve`, as far as it needs no server."""

from dataclasses import replace
from pathlib import Path

from typer.testing import CliRunner

from engine.cli.main import app
from engine.cli.serve import DEFAULT_PORT
from engine.server import running
from engine.server.clients import client_setups
from tests.support.engine.ended import assert_refused

STORIES = Path(__file__).parents[2] / "data" / "stories260K"


def test_help_has_the_lines_to_copy():
    printed = CliRunner().invoke(app, ["serve", "--help"], env={"COLUMNS": "200"}).output
    for setup in client_setups(f"http://127.0.0.1:{DEFAULT_PORT}", "MODEL", key="KEY"):
        for line in setup.lines.splitlines():
            assert line.rstrip() in printed
    assert "--attached" not in printed


def test_what_cannot_be_served_is_refused(run, target):
    for words, told in (
        (("--host", "192.0.2.1"), "--key-file"),
        (("--host", "0.0.0.0"), "--host"),
        (("--key-file", "/dev/null"), "chmod"),
        (("--target", "/nowhere/at/all"), "/nowhere/at/all"),
        (("--allow", "no-such-model", "--target", target), "no-such-model"),
        (("--keep", "soon", "--target", target), "soon"),
    ):
        assert_refused(run("serve", "--port", "0", *words), told)


def test_names_and_the_length_of_the_line_get_to_the_server(monkeypatch):
    places = []

    async def attached(place, *_, **__):
        places.append(place)

    monkeypatch.setattr(running, "serve_attached", attached)
    names = ("--allow-host", "host.docker.internal", "--allow-host", "mac.local")
    done = CliRunner().invoke(app, ["serve", "--attached", "--waiting", "3", *names])
    assert done.exit_code == 0, done.output
    (place,) = places
    assert place.names == ("host.docker.internal", "mac.local")
    assert place.most_waiting == 3
    sockets, bound = replace(place, port=0).bind()
    for one in sockets:
        one.close()
    assert (bound.names, bound.most_waiting) == (place.names, 3)
    assert bound.port > 0


def test_models_are_allowed_by_path_and_alias(monkeypatch):
    offered = []

    async def attached(place, offers, **_):
        offered.append(offers)

    monkeypatch.setattr(running, "serve_attached", attached)
    monkeypatch.chdir(STORIES.parent)
    options = ("--allow", STORIES.name, "--allow", f"claude-*={STORIES.name}", "--keep", "2m")
    done = CliRunner().invoke(app, ["serve", "--attached", "--drafter", "none", *options])
    assert done.exit_code == 0, done.output
    (offers,) = offered
    ((name, load),) = offers.loads.items()
    assert (name, load.drafter) == (STORIES.name, "auto")
    assert (dict(offers.aliases), offers.keep_seconds) == ({"claude-*": STORIES.name}, 120.0)
