"""Operations of the server, and an OpenAPI 3.1 document of them, made from the bodies' types."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Literal

from pydantic.json_schema import models_json_schema

from engine.server.app import Endpoint, Routes
from engine.server.bodies import Body

Json = dict[str, Any]
Dialect = Literal["openai", "anthropic", "ollama", "ours"]
_PARAMETER = re.compile(r"\{(\w+)\}$")
_REFERENCE = "#/components/schemas/{model}"


@dataclass(frozen=True, slots=True)
class Operation:
    """A method at a path, and the endpoint that answers it.

    A path may end with a parameter: "/models/{model}". The document lists it below /v1 in the
    dialects of OpenAI and Anthropic; paths that are `ours` are in nobody's API. `answer` names the
    schema of a whole answer, see below; `streams`: the answer may also be a stream.
    """

    method: str
    path: str
    endpoint: Endpoint
    answer: str
    body: type[Body] | None = None
    streams: bool = False
    dialect: Dialect = "openai"


def routes_of(operations: Iterable[Operation]) -> Routes:
    """The operations as the application's routes."""
    routes: dict[str, dict[str, Endpoint]] = {}
    for one in operations:
        path = _PARAMETER.sub("*", one.path)
        routes.setdefault(path, {})[one.method] = one.endpoint
    return routes


def document(operations: Sequence[Operation]) -> Json:
    """Write the OpenAPI document of these operations."""
    bodies = [(one.body, "validation") for one in operations if one.body is not None]
    _, definitions = models_json_schema(bodies, ref_template=_REFERENCE)  # type: ignore[arg-type]
    for schema in definitions["$defs"].values():
        _allow_null(schema)
    paths: dict[str, Json] = {}
    for one in operations:
        path = "/v1" + one.path if one.dialect in ("openai", "anthropic") else one.path
        paths.setdefault(path, {})[one.method.lower()] = _operation(one)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Slipstream", "version": version("slipstream")},
        "paths": paths,
        "components": {
            "schemas": {**definitions["$defs"], **_ANSWERS},
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "header": {"type": "apiKey", "in": "header", "name": "x-api-key"},
            },
        },
        "security": [{}, {"bearer": []}, {"header": []}],  # if the server has a key
    }


def _operation(one: Operation) -> Json:
    content = {_TYPES.get(one.answer, "application/json"): {"schema": _reference(one.answer)}}
    if one.streams:
        content[_STREAMS.get(one.dialect, "text/event-stream")] = {}
    error = _reference(_ERRORS.get(one.dialect, "Error"))
    refused = {"application/json": {"schema": error}}
    described: Json = {
        "summary": (one.endpoint.__doc__ or "").partition("\n")[0],
        "responses": {
            "200": {"description": "The answer.", "content": content},
            "default": {"description": "The reason why there is none.", "content": refused},
        },
    }
    if one.body is not None:
        schema = _reference(one.body.__name__)
        body = {"required": True, "content": {"application/json": {"schema": schema}}}
        described["requestBody"] = body
    if parameter := _PARAMETER.search(one.path):
        named = {"name": parameter[1], "in": "path", "required": True, "schema": _TEXT}
        described["parameters"] = [named]
    return described


def _reference(name: str) -> Json:
    return {"$ref": _REFERENCE.format(model=name)}


def _allow_null(schema: Json) -> None:
    """Allow null for every optional field."""
    null = {"type": "null"}
    for name, field in schema.get("properties", {}).items():
        optional = name not in schema.get("required", ())
        if optional and field.get("type") != "null" and null not in field.get("anyOf", ()):
            schema["properties"][name] = {"anyOf": [field, null]}


def _object(**properties: Json) -> Json:
    return {"type": "object", "properties": properties, "required": [*properties]}


def _list(items: Json) -> Json:
    return {"type": "array", "items": items}


_TEXT: Json = {"type": "string"}
_NUMBER: Json = {"type": "integer"}
_ANY: Json = {"type": "object"}
_MAYBE_TEXT: Json = {"type": ["string", "null"]}
_TYPES = {"Metrics": "text/plain"}
_STREAMS = {"ollama": "application/x-ndjson"}
_ERRORS = {"anthropic": "AnthropicError", "ollama": "OllamaError"}
_OLLAMA_END = {"model": _TEXT, "created_at": _TEXT, "done": {"type": "boolean"}}
_ANSWERS: dict[str, Json] = {
    "ChatCompletion": _object(
        id=_TEXT,
        object={"const": "chat.completion"},
        created=_NUMBER,
        model=_TEXT,
        choices=_list(_object(index=_NUMBER, message=_ANY, finish_reason=_TEXT)),
        usage=_ANY,
    ),
    "Completion": _object(
        id=_TEXT,
        object={"const": "text_completion"},
        created=_NUMBER,
        model=_TEXT,
        choices=_list(_object(index=_NUMBER, text=_TEXT, finish_reason=_TEXT)),
        usage=_ANY,
    ),
    "Response": _object(
        id=_TEXT,
        object={"const": "response"},
        created_at=_NUMBER,
        model=_TEXT,
        status={"enum": ["completed", "incomplete"]},
        output=_list(_object(type=_TEXT, id=_TEXT)),
        usage=_ANY,
    ),
    "Message": _object(
        id=_TEXT,
        type={"const": "message"},
        role={"const": "assistant"},
        model=_TEXT,
        content=_list(_object(type=_TEXT)),
        stop_reason=_TEXT,
        stop_sequence=_MAYBE_TEXT,
        usage=_object(input_tokens=_NUMBER, output_tokens=_NUMBER),
    ),
    "OllamaChat": _object(**_OLLAMA_END, message=_object(role=_TEXT, content=_TEXT)),
    "OllamaText": _object(**_OLLAMA_END, response=_TEXT),
    "OllamaModels": _object(models=_list(_object(name=_TEXT, model=_TEXT, details=_ANY))),
    "OllamaModel": _object(
        template=_TEXT, details=_ANY, model_info=_ANY, capabilities=_list(_TEXT)
    ),
    "Version": _object(version=_TEXT),
    "TokenCount": _object(input_tokens=_NUMBER),
    "Model": _object(id=_TEXT),
    "Models": _object(data=_list(_object(id=_TEXT))),
    "Name": _object(name=_TEXT),
    "Health": _object(status=_TEXT),
    "Metrics": _TEXT,
    "Document": _ANY,
    "Error": _object(error=_object(message=_TEXT, type=_TEXT, param=_MAYBE_TEXT, code=_TEXT)),
    "AnthropicError": _object(
        type={"const": "error"}, error=_object(type=_TEXT, message=_TEXT), request_id=_TEXT
    ),
    "OllamaError": _object(error=_TEXT),
}
