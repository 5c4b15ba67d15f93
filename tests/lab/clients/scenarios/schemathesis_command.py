"""Schemathesis: requests made up from the server's own OpenAPI document, also wrong ones."""

from pathlib import Path

from steps import SERVER, command, step

# What is made up seldom says how long an answer may be, and a tiny model does not end by itself.
Path("short.py").write_text(
    """import schemathesis

FIELDS = {
    "/v1/chat/completions": "max_completion_tokens",
    "/v1/responses": "max_output_tokens",
}


@schemathesis.hook
def before_call(context, case, kwargs):
    if not isinstance(case.body, dict):
        return
    if (field := FIELDS.get(case.operation.path)) and case.body.get(field) is None:
        case.body[field] = 4
    for field in (*FIELDS.values(), "max_tokens"):
        if isinstance(case.body.get(field), int):
            case.body[field] = min(case.body[field], 4)
    if case.operation.path in ("/api/chat", "/api/generate"):
        options = case.body.get("options")
        if options is None or isinstance(options, dict):
            number = (options or {}).get("num_predict")
            if number is None or isinstance(number, int):
                case.body["options"] = {**(options or {}), "num_predict": 4}
"""
)


@step("nothing that is made up breaks the server or what it promises")
def _():
    command(
        "schemathesis",
        *("run", f"{SERVER}/openapi.json", "--url", SERVER, "--checks", "all"),
        # A schema cannot say all that is wrong with a request: an empty chat, say.
        "--exclude-checks=positive_data_acceptance",
        *("--max-examples", "25", "--seed", "1", "--no-color", "--request-timeout", "120"),
        *("--max-response-time", "120"),
        *("-H", "Authorization: Bearer x"),
        SCHEMATHESIS_HOOKS="short",
        PYTHONPATH=".",
    )
