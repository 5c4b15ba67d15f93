"""The endpoints and their paths."""

from engine.server.anthropic import count_tokens, messages
from engine.server.app import Routes
from engine.server.errors import not_loaded
from engine.server.exchange import Call, Reply, json_reply
from engine.server.models import model, models
from engine.server.ollama import chat, generate, ps, show, tags, version
from engine.server.openai import chat_completions, completions
from engine.server.responses import responses
from engine.server.service import Service


async def root(service: Service, call: Call) -> Reply:
    """Name the server; some clients look for it."""
    return json_reply({"name": "Slipstream"})


async def health(service: Service, call: Call) -> Reply:
    """Say whether requests can be answered now. Needs no key."""
    if service.pair.state == "loading" or not service.pair.name:
        raise not_loaded()
    return json_reply({"status": "ok"})


ROUTES: Routes = {
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
