"""Settings of other programs for the server: lines to copy, and agents that are started with them.

Knows no process. An agent's settings are variables and arguments, so nothing in the user's
configuration is changed.
"""

import json
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field

NO_KEY = "none"  # most clients want a key, and a server without one accepts any


@dataclass(frozen=True, slots=True)
class ClientSetup:
    """The `lines` that set up the program `name`, and `where` they go."""

    name: str
    where: str
    lines: str


@dataclass(frozen=True, slots=True)
class Server:
    """A server as programs need it: its `address`, such as http://127.0.0.1:8737, its API `key`,
    the name of the `model`, and its `context` in tokens."""

    address: str
    model: str
    key: str = NO_KEY
    context: int = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """A `program` for the terminal, `name` in words, with its settings: `variables` of its
    environment and `arguments`. `install`: the command that installs it."""

    name: str
    program: str
    install: str
    variables: dict[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()

    @property
    def lines(self) -> str:
        """The command, to be copied into a terminal."""
        lines = [f"{name}={shlex.quote(value)}" for name, value in self.variables.items()]
        lines.append(self.program)
        for word in map(shlex.quote, self.arguments):
            if word.startswith("-"):
                lines.append(f"  {word}")
            else:
                lines[-1] += f" {word}"
        return " \\\n".join(lines)


def client_setups(
    address: str, model: str, *, key: str = NO_KEY, context: int = 4096
) -> tuple[ClientSetup, ...]:
    """The setups of all programs that were tried. `address`: http://127.0.0.1:8737, for example."""
    server = Server(address, model, key, context)
    values = {"@address": address, "@model": model, "@key": key, "@context": str(context)}

    def filled(lines: str) -> str:
        for name, value in values.items():
            lines = lines.replace(name, value)
        return lines

    return (
        *(ClientSetup(name, where, filled(lines)) for name, where, lines in _SETUPS),
        *(
            ClientSetup(agent.name, "in a terminal", agent.lines)
            for agent in agents(server).values()
        ),
    )


def agents(server: Server) -> dict[str, Agent]:
    """The agents that were tried, by their programs, with their settings for a server."""
    return {agent.program: agent for agent in (make(server) for make in _AGENTS)}


_SETUPS = (
    (
        "Zed",
        "in settings.json; the key in the variable SLIPSTREAM_API_KEY",
        """\
"language_models": {"openai_compatible": {"Slipstream": {
  "api_url": "@address/v1",
  "available_models": [{"name": "@model", "max_tokens": @context}]
}}}""",
    ),
    (
        "Continue",
        "in ~/.continue/config.yaml",
        """\
models:
  - name: Slipstream
    provider: openai
    model: @model
    apiBase: @address/v1
    apiKey: @key""",
    ),
    (
        "Xcode",
        "in Settings, Intelligence, Add a Model Provider, Internet Hosted",
        "URL: @address   API Key: @key",
    ),
    (
        "Programs for Ollama",
        "as the address, or host, of Ollama",
        "@address",
    ),
)


def _claude(server: Server) -> Agent:
    kinds = ("ANTHROPIC_MODEL", *(f"ANTHROPIC_DEFAULT_{k}_MODEL" for k in _CLAUDE_KINDS))
    return Agent(
        name="Claude Code",
        program="claude",
        install="npm install -g @anthropic-ai/claude-code",
        variables={
            "ANTHROPIC_BASE_URL": server.address,
            "ANTHROPIC_AUTH_TOKEN": server.key,
            "ANTHROPIC_API_KEY": "",  # would be shown in place of the token
            **dict.fromkeys(kinds, server.model),
        },
    )


_CLAUDE_KINDS = ("HAIKU", "SONNET", "OPUS")


def _codex(server: Server) -> Agent:
    values = {
        "model_context_window": str(server.context),
        "model_provider": "slipstream",
        "model_providers.slipstream.name": "Slipstream",
        "model_providers.slipstream.base_url": f"{server.address}/v1",
        "model_providers.slipstream.wire_api": "responses",
        "model_providers.slipstream.env_key": "SLIPSTREAM_API_KEY",
    }
    return Agent(
        name="Codex",
        program="codex",
        install="npm install -g @openai/codex",
        variables={"SLIPSTREAM_API_KEY": server.key},
        arguments=(
            *("-m", server.model),
            *(word for name, value in values.items() for word in ("-c", f"{name}={value}")),
        ),
    )


def _opencode(server: Server) -> Agent:
    limit = {"context": server.context, "output": max(server.context // 4, 1)}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "Slipstream",
        "options": {"baseURL": f"{server.address}/v1", "apiKey": server.key},
        "models": {server.model: {"limit": limit}},
    }
    rows = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in provider.items()]
    model, inner = json.dumps(f"slipstream/{server.model}"), ",\n  ".join(rows)
    settings = f'{{"model": {model},\n "provider": {{"slipstream": {{\n  {inner}}}}}}}'
    return Agent(
        name="OpenCode",
        program="opencode",
        install="npm install -g opencode-ai",
        variables={"OPENCODE_CONFIG_CONTENT": settings},
    )


def _aider(server: Server) -> Agent:
    return Agent(
        name="Aider",
        program="aider",
        install="uv tool install aider-chat",
        arguments=(
            *("--model", f"openai/{server.model}"),
            *("--openai-api-base", f"{server.address}/v1"),
            *("--openai-api-key", server.key),
        ),
    )


def _qwen(server: Server) -> Agent:
    return Agent(
        name="Qwen Code",
        program="qwen",
        install="npm install -g @qwen-code/qwen-code",
        variables={
            "OPENAI_BASE_URL": f"{server.address}/v1",
            "OPENAI_API_KEY": server.key,
            "OPENAI_MODEL": server.model,
        },
        arguments=("--auth-type", "openai"),
    )


_AGENTS: tuple[Callable[[Server], Agent], ...] = (_claude, _codex, _opencode, _aider, _qwen)
