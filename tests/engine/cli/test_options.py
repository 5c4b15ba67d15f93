"""Options are declared once, every command that answers gets the same, and so does the server."""

from dataclasses import fields, replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from engine.cli.main import app
from engine.cli.options import AnswerOptions, ModelOptions
from engine.cli.serve import DEFAULT_PORT
from engine.process.protocol import Load, Macs, Memory
from engine.request import BALANCED, Sampling
from engine.server import running
from engine.server.clients import client_setups
from models.errors import Problem
from models.model_folder import ModelFolder
from tests.support.engine.ended import assert_refused

STORIES = Path(__file__).parents[2] / "data" / "stories260K"


def load(target, **options):
    return ModelOptions(**options).load(ModelFolder(target), id="1", parallel=2)


def all_commands(app, *before):
    yield before
    for command in app.registered_commands:
        assert command.callback is not None
        if not command.hidden:
            yield (*before, command.name or command.callback.__name__)
    for group in app.registered_groups:
        assert group.typer_instance is not None
        yield from all_commands(group.typer_instance, *before, str(group.name))


def test_all_help_can_be_read_and_ends_with_an_example():
    found = list(all_commands(app))
    assert ("models", "pull") in found
    of_a_model = [each.name.replace("_", "-") for each in fields(ModelOptions)]
    for words in found:
        ended = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": "80"})
        assert (ended.exit_code, "Example: slipstream " in ended.output) == (0, True), words
        assert "…" not in ended.output, f"{words}: cut off"
        if words[-1:] in (("generate",), ("chat",), ("serve",), ("agent",)):
            lacking = [name for name in of_a_model if f"--{name} " not in ended.output]
            assert lacking == [], words


def test_what_was_chosen_is_loaded(target):
    chosen = {"drafter": "suffix", "draft_length": "4", "learn": True, "measure": True}
    assert load(target, **chosen, context=100, cache_bits=8) == Load(
        *("1", str(target), "suffix", "4", Memory(100, 8)), parallel=2, learn=True, measure=True
    )
    assert load(target, cache=False).keep_bytes == 0
    assert load(target, hosts=Path("/a"), mode="tensor").macs == Macs("/a", "tensor")
    assert load(target).sampling is None
    assert load(target, temperature=0).sampling == Sampling()
    assert load(target, top_k=5).sampling == Sampling(top_k=5)
    seeded = load(target, seed=7).sampling
    assert (seeded.seed, seeded.repeatable) == (7, True)
    assert (seeded.temperature, seeded.top_p) == (BALANCED.temperature, BALANCED.top_p)
    # What cannot be is refused before anything is read.
    for wrong in ({"temperature": -1.0}, {"context": 1}, {"cache_bits": 5}, {"mode": "tensor"}):
        with pytest.raises(Problem):
            pytest.fail(f"{wrong} is {AnswerOptions(**wrong)}")


# The server


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


def test_a_server_gets_its_place_and_its_models(monkeypatch):
    got = []

    async def attached(place, offers, **_):
        got.append((place, offers))

    monkeypatch.setattr(running, "serve_attached", attached)
    monkeypatch.chdir(STORIES.parent)
    words = ["--waiting", "3", "--allow-host", "host.docker.internal", "--allow-host", "mac.local"]
    words += ["--allow", STORIES.name, "--allow", f"claude-*={STORIES.name}", "--keep", "2m"]
    done = CliRunner().invoke(app, ["serve", "--attached", "--drafter", "none", *words])
    assert done.exit_code == 0, done.output
    ((place, offers),) = got
    sockets, bound = replace(place, port=0).bind()
    for one in sockets:
        one.close()
    for each in (place, bound):
        assert (each.names, each.most_waiting) == (("host.docker.internal", "mac.local"), 3)
    assert bound.port > 0
    ((name, load),) = offers.loads.items()
    assert (name, load.drafter) == (STORIES.name, "auto")
    assert (dict(offers.aliases), offers.keep_seconds) == ({"claude-*": STORIES.name}, 120.0)
