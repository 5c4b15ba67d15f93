"""The server as an ASGI application: passes each request to the endpoint of its path, and writes
errors in the client's dialect. Knows no socket."""

import re
import sys
import traceback
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from uuid import uuid4

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from engine.server.anthropic import count_tokens, messages
from engine.server.bodies import read_json
from engine.server.errors import (
    Refusal,
    anthropic_error,
    broken,
    crowded_out,
    not_loaded,
    ollama_error,
    openai_error,
)
from engine.server.exchange import Call, client_of, json_reply, read_whole, while_there
from engine.server.guard import Guard, check_body
from engine.server.models import model, models
from engine.server.ollama import chat, generate, ps, show, tags, version
from engine.server.openai import chat_completions, completions
from engine.server.responses import responses
from engine.server.service import Service
from engine.server.wishes import MISSING

Endpoint = Callable[[Service, Call], Awaitable[Response]]
_BASE = re.compile("^(/api/v[01](?=/)|/v1(?=/|$))+")  # also LM Studio's and OpenRouter's


async def root(service: Service, call: Call) -> Response:
    """Name the server; some clients look for it."""
    return json_reply({"name": "Slipstream"})


async def health(service: Service, call: Call) -> Response:
    """Return whether requests can be answered now. Needs no key."""
    if service.pair.state == "loading" or not service.pair.name:
        raise not_loaded()
    return json_reply({"status": "ok"})


ROUTES: Mapping[str, Mapping[str, Endpoint]] = {
    "/": {"GET": root},
    "/health": {"GET": health},
    "/models": {"GET": models},
    "/models/*": {"GET": model},
    "/chat/completions": {"POST": chat_completions},
    "/completions": {"POST": completions},
    "/responses": {"POST": responses},
    "/messages": {"POST": messages},
    "/messages/count_tokens": {"POST": count_tokens},
    "/api/chat": {"POST": chat},
    "/api/generate": {"POST": generate},
    "/api/tags": {"GET": tags},
    "/api/ps": {"GET": ps},
    "/api/show": {"POST": show},
    "/api/version": {"GET": version},
}
"""Endpoints by path and method. Paths have no /v1 and no /api/v0; "/models/*" means all paths below
/models."""


class App:
    """Answers requests, each checked by the guard first."""

    def __init__(self, service: Service, guard: Guard) -> None:
        self._service, self._guard = service, guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        async with AsyncExitStack() as held:
            await self._answer(_call(scope, held), scope, receive, send)

    async def _answer(self, call: Call, scope: Scope, receive: Receive, send: Send) -> None:
        added = {"x-request-id": call.id, "request-id": call.id}  # headers of each response

        async def reply(response: Response) -> None:
            response.headers.update(added)
            await response(scope, receive, send)

        try:
            if scope.get("crowded"):
                raise crowded_out()
            added |= (cors := self._guard.check_place(scope["headers"]))
            if call.method == "OPTIONS" and cors:  # which a browser asks without the key
                await reply(Response(status_code=204))
                return
            self._guard.check_key(call)
            endpoint = self._endpoint(call)
            if call.method == "POST":
                check_body(call)
                call = replace(call, body=read_json(await read_whole(receive)))
        except Refusal as refusal:
            added["connection"] = "close"  # the rest of the body is not read
            await reply(_refused(call, refusal))
            return

        async def answer() -> None:
            try:
                named = call.body.get("model") if isinstance(call.body, dict) else None
                name = named if isinstance(named, str) else ""
                response = await endpoint(self._service.asked_for(name), call)
            except Refusal as refusal:
                response = _refused(call, refusal)
            except Exception as error:
                traceback.print_exception(error, file=sys.stderr)
                response = _refused(call, broken())
            try:
                await reply(response)
            except Exception as error:  # in a stream, which then ends early
                traceback.print_exception(error, file=sys.stderr)
                raise

        await while_there(receive, answer())

    def _endpoint(self, call: Call) -> Endpoint:
        """The endpoint of a call. Raises Refusal if there is none."""
        above = "/".join(call.path.split("/")[:2]) + "/*"
        methods = ROUTES.get(call.path) or ROUTES.get(above)
        if methods is None:
            missing = next((MISSING[path] for path in (call.path, above) if path in MISSING), "")
            raise Refusal(404, "not_found", missing or f"{call.path} is not a path of this server.")
        method = "GET" if call.method == "HEAD" else call.method
        if method not in methods:
            allow = ", ".join(sorted({*methods, *(["HEAD"] if "GET" in methods else [])}))
            message = f"{call.path} supports {allow}, not {call.method}."
            raise Refusal(405, "method_not_allowed", message, allow=allow)
        return methods[method]


def _call(scope: Scope, held: AsyncExitStack) -> Call:
    # Not from the URL, which in part is the client's Host header.
    path = _BASE.sub("", "/" + "/".join(filter(None, scope["path"].split("/"))))
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    return Call(
        id="req_" + uuid4().hex[:24],
        method=scope["method"],
        path=path or "/",
        query=scope["query_string"].decode("latin-1"),
        headers=headers,
        client=client_of(headers.get("user-agent", "")),
        held=held,
    )


def _refused(call: Call, refusal: Refusal) -> Response:
    """The response to a refused call, in the client's dialect."""
    if call.path.startswith("/api/"):
        error = ollama_error(refusal)
    elif call.path.startswith("/messages") or "anthropic-version" in call.headers:
        error = anthropic_error(refusal, call.id)
    else:
        error = openai_error(refusal)
    return json_reply(error, refusal.status, refusal.headers)
