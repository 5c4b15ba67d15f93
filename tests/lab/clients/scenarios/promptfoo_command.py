"""promptfoo: answers that must fit a schema."""

import json
from pathlib import Path

from steps import BASE, MODEL, PERSON, command, same, step

wanted = {
    "type": "json_schema",
    "json_schema": {"name": "person", "schema": PERSON, "strict": True},
}
settings = {"apiBaseUrl": BASE, "apiKey": "x", "temperature": 0, "max_tokens": 60}
Path("config.json").write_text(
    json.dumps(
        {
            "prompts": ["{{name}} is 30 years old. Who is that?"],
            "providers": [
                {"id": f"openai:chat:{MODEL}", "config": {**settings, "response_format": wanted}}
            ],
            "tests": [
                {"vars": {"name": name}, "assert": [{"type": "is-json", "value": PERSON}]}
                for name in ("Ann", "Ben", "Eve")
            ],
        }
    )
)


@step("three answers by a schema")
def _():
    command(
        "promptfoo",
        *("eval", "-c", "config.json", "--no-cache", "-o", "out.json", "--no-progress-bar"),
        PROMPTFOO_DISABLE_TELEMETRY="1",
        PROMPTFOO_DISABLE_UPDATE="1",
        PROMPTFOO_CONFIG_DIR=str(Path("home").absolute()),
        PROMPTFOO_PASS_RATE_THRESHOLD="0",
    )
    results = json.loads(Path("out.json").read_text())["results"]
    wrong = [one["error"] or one["response"] for one in results["results"] if not one["success"]]
    same(wrong, [])
    same(len(results["results"]), 3)
