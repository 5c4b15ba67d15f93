"""Lines that set up other programs for the server, with its address and model filled in."""

from dataclasses import dataclass

NO_KEY = "none"  # most clients want a key, and a server without one accepts any


@dataclass(frozen=True, slots=True)
class ClientSetup:
    """The `lines` that set up the program `name`, and `where` they go."""

    name: str
    where: str
    lines: str


def client_setups(
    address: str, model: str, *, key: str = NO_KEY, context: int = 4096
) -> tuple[ClientSetup, ...]:
    """The setups of all programs that were tried. `address`: http://127.0.0.1:8737, for example."""
    values = {"@address": address, "@model": model, "@key": key, "@context": str(context)}

    def filled(lines: str) -> str:
        for name, value in values.items():
            lines = lines.replace(name, value)
        return lines

    return tuple(ClientSetup(name, where, filled(lines)) for name, where, lines in _SETUPS)


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
        "Aider",
        "in a terminal",
        "aider --model openai/@model --openai-api-base @address/v1 --openai-api-key @key",
    ),
    (
        "Codex",
        "in ~/.codex/config.toml; the key in the variable SLIPSTREAM_API_KEY",
        """\
model = "@model"
model_provider = "slipstream"
[model_providers.slipstream]
name = "Slipstream"
base_url = "@address/v1"
wire_api = "responses"
env_key = "SLIPSTREAM_API_KEY\"""",
    ),
    (
        "Claude Code",
        "in a terminal",
        "ANTHROPIC_BASE_URL=@address ANTHROPIC_AUTH_TOKEN=@key ANTHROPIC_MODEL=@model claude",
    ),
    (
        "Xcode",
        "in Settings, Intelligence, Add a Model Provider, Internet Hosted",
        "URL: @address   API Key: @key",
    ),
)
