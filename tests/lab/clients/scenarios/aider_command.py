"""aider, a command that edits files: what it asks is answered, whatever a tiny model writes."""

from pathlib import Path

from steps import BASE, MODEL, command, step

OPTIONS = (
    "--no-git",
    "--yes-always",
    "--no-check-update",
    "--analytics-disable",
    "--no-show-model-warnings",
    "--no-pretty",
    "--edit-format=whole",
    "--map-tokens=0",
)


def aider(*arguments: str) -> None:
    Path("f.py").write_text("x = 1\n")
    variables = {"OPENAI_API_BASE": BASE, "OPENAI_API_KEY": "x"}
    message = ("--message", "Say hello.", "f.py")
    said = command(
        "aider", "--model", f"openai/{MODEL}", *OPTIONS, *arguments, *message, **variables
    )
    assert "Tokens:" in said, said[-400:]
    assert "litellm." not in said, said[-400:]  # the names of its errors


@step("a message, streamed")
def _():
    aider()


@step("a message, whole")
def _():
    aider("--no-stream")
