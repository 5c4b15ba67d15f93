"""Codex, which takes the server for Ollama: one question to its agent, of thousands of tokens."""

import json
from pathlib import Path

from steps import BASE, MODEL, command, step

Path("brief.md").write_text("Be brief.")
SHORT = ("-c", 'model_instructions_file="brief.md"', "-c", 'web_search="disabled"')


@step("an answer with --oss, which asks for a version of Ollama and its models first")
def _():
    oss = ("exec", "--oss", "--local-provider", "ollama", "-m", MODEL, "--skip-git-repo-check")
    printed = command("codex", *oss, *SHORT, "--json", "Say hello.", CODEX_OSS_BASE_URL=BASE)
    events = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    *_, last = events
    assert last["type"] == "turn.completed", printed[-300:]
    assert last["usage"]["output_tokens"] > 0, last
