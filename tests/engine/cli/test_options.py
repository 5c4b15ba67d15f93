"""Options are declared once, and every command that answers gets the same."""

from dataclasses import fields
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from engine.cli.main import app
from engine.cli.options import AnswerOptions, MacsOptions, ModelOptions, with_options
from engine.process.protocol import Load, Macs, Memory
from engine.request import BALANCED, Sampling
from models.errors import Problem
from models.model_folder import ModelFolder


def load(target, options):
    return options.load(ModelFolder(target), id="1", parallel=2)


def test_a_command_gets_one_object():
    got = []

    @with_options
    def command(options: MacsOptions) -> None:
        got.append(options)

    app = typer.Typer()
    app.command()(command)
    ended = CliRunner().invoke(app, ["--hosts", "two.json", "--mode", "tensor"])
    assert (ended.exit_code, ended.output) == (0, "")
    assert got == [MacsOptions(hosts=Path("two.json"), mode="tensor")]


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
    chosen = ModelOptions(
        drafter="suffix", draft_length="4", context=100, cache_bits=8, learn=True, measure=True
    )
    assert load(target, chosen) == Load(
        *("1", str(target), "suffix", "4", Memory(100, 8)), parallel=2, learn=True, measure=True
    )
    assert load(target, ModelOptions(cache=False)).keep_bytes == 0
    assert load(target, ModelOptions(hosts=Path("/a"), mode="tensor")).macs == Macs("/a", "tensor")


def test_sampling_is_as_given_or_the_models_own(target):
    assert load(target, ModelOptions()).sampling is None
    assert load(target, ModelOptions(temperature=0)).sampling == Sampling()
    assert load(target, ModelOptions(top_k=5)).sampling == Sampling(top_k=5)
    seeded = load(target, ModelOptions(seed=7)).sampling
    assert (seeded.seed, seeded.repeatable) == (7, True)
    assert (seeded.temperature, seeded.top_p) == (BALANCED.temperature, BALANCED.top_p)


def test_what_cannot_be_is_refused_before_anything_is_read():
    for wrong in ({"temperature": -1.0}, {"context": 1}, {"cache_bits": 5}, {"mode": "tensor"}):
        with pytest.raises(Problem):
            AnswerOptions(**wrong)
