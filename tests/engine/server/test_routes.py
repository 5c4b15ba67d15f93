"""The paths that the server answers, each with its method."""

from engine.server.app import ROUTES
from tests.support.engine.asking import asking, run

READ = ["/", "/health", "/models", "/models/*"]
READ += ["/api/tags", "/api/ps", "/api/version"]
WRITTEN = ["/chat/completions", "/completions", "/responses", "/messages", "/messages/count_tokens"]
WRITTEN += ["/api/chat", "/api/generate", "/api/show"]


def test_each_path_takes_its_method_below_v1_too() -> None:
    async def ask() -> None:
        async with asking() as (client, _):
            for allowed, paths in (("GET, HEAD", READ), ("POST", WRITTEN)):
                for path in (*paths, *(f"/v1{path}" for path in paths)):
                    refused = await client.put(path, json={})
                    assert (refused.status_code, refused.headers["allow"]) == (405, allowed), path

    run(ask())
    assert {*ROUTES} == {*READ, *WRITTEN}
