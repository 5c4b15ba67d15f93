"""opencode: one question to its agent, whose prompt and tools have thousands of tokens."""

import json
from pathlib import Path

from steps import BASE, MODEL, command, step

Path("opencode.json").write_text(
    json.dumps(
        {
            "$schema": "https://opencode.ai/config.json",
            "autoupdate": False,
            "share": "disabled",
            "model": f"slipstream/{MODEL}",
            "small_model": f"slipstream/{MODEL}",
            "agent": {"build": {"prompt": "Be brief.", "steps": 1}},
            "tools": {"*": False, "read": True},
            "provider": {
                "slipstream": {
                    "npm": "@ai-sdk/openai-compatible",
                    "name": "Slipstream",
                    "options": {"baseURL": BASE, "apiKey": "x"},
                    "models": {MODEL: {"name": MODEL, "limit": {"context": 8192, "output": 64}}},
                }
            },
        }
    )
)


@step("an answer, which may be a text or a call")
def _():
    printed = command("opencode", "run", "--pure", "--format", "json", "Say hello.")
    events = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    assert not [event for event in events if event["type"] == "error"], printed[:300]
    *_, last = [event for event in events if event["type"] == "step_finish"]
    assert last["part"]["tokens"]["output"] > 0, last
