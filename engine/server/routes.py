"""Which endpoint is where."""

from engine.server.anthropic.endpoints import count_tokens, messages
from engine.server.app import Routes
from engine.server.exchange import Call, Reply, json_reply
from engine.server.models import metrics, model, models
from engine.server.openai.chat import chat_completions
from engine.server.responses.endpoints import responses
from engine.server.service import Service


async def root(service: Service, call: Call) -> Reply:
    """That a server is here; some clients look."""
    return json_reply({"name": "Slipstream"})


async def health(service: Service, call: Call) -> Reply:
    """Whether requests can be answered now. Needs no key, and tells nothing else."""
    _ = service.loaded
    return json_reply({"status": "ok"})


ROUTES: Routes = {
    "/": {"GET": root},
    "/health": {"GET": health},
    "/metrics": {"GET": metrics},
    "/models": {"GET": models},
    "/models/*": {"GET": model},
    "/chat/completions": {"POST": chat_completions},
    "/messages": {"POST": messages},
    "/messages/count_tokens": {"POST": count_tokens},
    "/responses": {"POST": responses},
}
