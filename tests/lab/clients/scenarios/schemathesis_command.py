"""Schemathesis: requests made up from the server's own OpenAPI document, also wrong ones."""

from steps import SERVER, command, step


@step("nothing that is made up breaks the server or what it promises")
def _():
    command(
        "schemathesis",
        *("run", f"{SERVER}/openapi.json", "--url", SERVER, "--checks", "all"),
        # A schema cannot say all that is wrong with a request: an empty chat, say.
        "--exclude-checks=positive_data_acceptance",
        *("--max-examples", "25", "--seed", "1", "--no-color", "--request-timeout", "60"),
        *("-H", "Authorization: Bearer x"),
    )
