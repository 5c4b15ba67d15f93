"""The endpoints and their paths."""

from engine.server.anthropic.bodies import CountTokensBody, MessagesBody
from engine.server.anthropic.endpoints import count_tokens, messages
from engine.server.errors import not_loaded
from engine.server.exchange import Call, Reply, json_reply
from engine.server.models import metrics, model, models
from engine.server.ollama.bodies import GenerateBody, OllamaChatBody, ShowBody
from engine.server.ollama.endpoints import chat, generate
from engine.server.ollama.models import ps, show, tags, version
from engine.server.openai.chat import ChatBody, chat_completions
from engine.server.openai.completions import CompletionBody, completions
from engine.server.openapi import Operation, document, routes_of
from engine.server.responses.bodies import ResponsesBody
from engine.server.responses.endpoints import responses
from engine.server.service import Service


async def root(service: Service, call: Call) -> Reply:
    """Name the server; some clients look for it."""
    return json_reply({"name": "Slipstream"})


async def health(service: Service, call: Call) -> Reply:
    """Say whether requests can be answered now. Needs no key."""
    if service.pair.state == "loading" or not service.pair.name:
        raise not_loaded()
    return json_reply({"status": "ok"})


async def openapi(service: Service, call: Call) -> Reply:
    """Describe the endpoints as an OpenAPI document."""
    return json_reply(document(OPERATIONS))


OPERATIONS = (
    Operation("GET", "/", root, "Name", dialect="ours"),
    Operation("GET", "/health", health, "Health", dialect="ours"),
    Operation("GET", "/metrics", metrics, "Metrics", dialect="ours"),
    Operation("GET", "/openapi.json", openapi, "Document", dialect="ours"),
    Operation("GET", "/models", models, "Models"),
    Operation("GET", "/models/{model}", model, "Model"),
    Operation(
        "POST", "/chat/completions", chat_completions, "ChatCompletion", ChatBody, streams=True
    ),
    Operation("POST", "/completions", completions, "Completion", CompletionBody, streams=True),
    Operation("POST", "/responses", responses, "Response", ResponsesBody, streams=True),
    Operation(
        "POST", "/messages", messages, "Message", MessagesBody, streams=True, dialect="anthropic"
    ),
    Operation(
        "POST",
        "/messages/count_tokens",
        count_tokens,
        "TokenCount",
        CountTokensBody,
        dialect="anthropic",
    ),
    Operation(
        "POST", "/api/chat", chat, "OllamaChat", OllamaChatBody, streams=True, dialect="ollama"
    ),
    Operation(
        "POST",
        "/api/generate",
        generate,
        "OllamaText",
        GenerateBody,
        streams=True,
        dialect="ollama",
    ),
    Operation("GET", "/api/tags", tags, "OllamaModels", dialect="ollama"),
    Operation("GET", "/api/ps", ps, "OllamaModels", dialect="ollama"),
    Operation("POST", "/api/show", show, "OllamaModel", ShowBody, dialect="ollama"),
    Operation("GET", "/api/version", version, "Version", dialect="ollama"),
)

ROUTES = routes_of(OPERATIONS)
