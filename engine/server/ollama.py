"""Ollama's API: /api/chat, /api/generate, and the list of models.

Fields that are not here, and options that only say how to compute, are ignored.
"""

import asyncio
import hashlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from pathlib import Path
from time import perf_counter_ns
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field
from starlette.responses import Response

from engine.events import CallPiece, Prefill
from engine.process.protocol import Loaded
from engine.request import ChatMessage, Grammar, Prompt, Request
from engine.server.answers import Ask, Ended, Piece, Said, arguments_in, call_id
from engine.server.bodies import WHOLE, Body, named, names_of, read_body
from engine.server.errors import Refusal, invalid, ollama_error
from engine.server.exchange import LINES, Call, Json, json_reply, line
from engine.server.fields import LENGTHS, SamplingFields, check_gap, sampling_in
from engine.server.forms import OBJECT, FormFields, form_in, schema_form
from engine.server.logprobs import chat_logprobs
from engine.server.messages import MOST_MESSAGES, Message, conversation_of, images_in
from engine.server.models import context_of
from engine.server.pool import Pair, keep_seconds
from engine.server.service import Service
from engine.server.thinking import ThinkingFields
from engine.server.tools import ToolFields, call_rules, tools_json
from models.architectures import number
from models.errors import Problem
from models.memory.parameters import count_parameters
from models.model_folder import ModelFolder


class Options(SamplingFields):
    """The settings of an answer. A `num_predict` below 1 means no limit, and a seed of -1 no seed.

    `num_ctx` is the context that the client expects. It does not change the context of the loaded
    model: an answer without another limit ends after `num_ctx` tokens, and a prompt that does not
    fit is refused. A temperature below 0 is 0, as in Ollama.
    """

    temperature: Annotated[float, Field(le=100)] | None = None
    num_predict: Annotated[int, WHOLE] | None = named("num_predict", *LENGTHS)
    num_ctx: Annotated[int, WHOLE] | None = None


class AnswerFields(FormFields, ThinkingFields):
    """The common fields of chat and generate. `format`: "json", or a schema."""

    FORM = "format"
    model: str = ""
    stream: bool = True
    format: Literal["json", ""] | dict[str, Any] | None = None
    options: Options = Options()
    truncate: bool | None = None
    keep_alive: Annotated[float, Field(ge=-1e9, le=1e9)] | str | None = None
    logprobs: bool = False
    top_logprobs: Annotated[int, Field(ge=0, le=20), WHOLE] = 0


class OllamaChatBody(AnswerFields, ToolFields):
    """A chat; without messages, the question whether there is a model. Ollama has no choice among
    tools, but some of its clients send one."""

    messages: Annotated[list[Message], Field(max_length=MOST_MESSAGES)] = Field(
        default_factory=list
    )


class GenerateBody(AnswerFields):
    """A prompt, which is a user's message unless it is `raw`, or has a gap before `suffix`."""

    prompt: str = ""
    system: str = ""
    suffix: str = ""
    raw: bool = False
    images: list[str] = Field(default_factory=list)


class ShowBody(Body):
    model: str | None = named("model", "name")


def chat_ask(body: OllamaChatBody, loaded: Loaded) -> Ask:
    """Make an `Ask` of a chat. Raises Refusal."""
    functions = body.functions
    rules = call_rules(body.choice, functions, parallel=body.parallel)
    request = _request(body, loaded, calls=rules)
    prompt = Prompt(
        messages=conversation_of(body.messages),
        tools=tools_json(functions),
        options=body.variables,
    )
    return Ask(prompt=prompt, request=request, hidden=body.hidden)


def generate_ask(body: GenerateBody, loaded: Loaded) -> Ask:
    """Make an `Ask` of a prompt, or of a gap in one. Raises Refusal."""
    check_gap(body.suffix, loaded)
    if body.raw and body.system:
        raise invalid("system is not supported in a raw prompt. Put it into the prompt.", "system")
    if body.images and (body.suffix or body.raw):
        message = "Images are not supported in a raw prompt or with a suffix. Use /api/chat."
        raise invalid(message, "images", "unsupported_content")
    prompt = Prompt(text=body.prompt, suffix=body.suffix)
    if not body.raw and not body.suffix:
        messages = [ChatMessage("system", body.system)] if body.system else []
        question = ChatMessage("user", body.prompt, pictures=images_in(body.images, "images"))
        prompt = Prompt(messages=(*messages, question), options=body.variables)
    return Ask(prompt=prompt, request=_request(body, loaded), hidden=body.hidden)


def _request(body: AnswerFields, loaded: Loaded, **more: Any) -> Request:
    options, context = body.options, loaded.context_length
    limits = (options.num_predict, options.num_ctx, context)
    return Request(
        sampling=sampling_in(options, loaded),
        max_tokens=min(next(limit for limit in limits if limit is not None and limit > 0), context),
        stops=tuple(options.stop),
        overflow="rolling" if body.truncate else "stop",
        thinking=body.wish,
        thinking_budget=body.budget,
        grammar=form_in(body, _form(body.format)),
        logprobs=body.top_logprobs if body.logprobs else None,
        **more,
    )


def _form(form: str | dict[str, Any] | None) -> Grammar | None:
    if not form:
        return None
    schema = form if isinstance(form, dict) else OBJECT
    return schema_form(schema, "format", strict=False)


@dataclass(slots=True)
class ReplyWriter:
    """Turns pieces into objects. `chat`: the parts are a message; otherwise a text. `context`: the
    tokens that the client expects, or 0. `whole` joins all parts so far."""

    model: str
    chat: bool
    context: int = 0
    media: ClassVar[str] = LINES
    _parts: list[Json] = field(init=False, default_factory=list)
    _name: str = field(init=False, default="")  # of the call that is being written
    _arguments: str = field(init=False, default="")
    _began: int = field(init=False, default_factory=perf_counter_ns)

    @staticmethod
    def frame(part: Json) -> bytes:
        return line(part)

    def push(self, piece: Piece, number: int = 0) -> list[Json]:
        """The objects of a piece. A call is sent whole, as its arguments are an object."""
        parts = self._push(piece)
        self._parts += parts
        return parts

    def _push(self, piece: Piece) -> list[Json]:
        match piece:
            case None:
                return [self._part()]
            case Prefill():
                return []
            case Refusal():
                return [ollama_error(self.refused(piece))]
            case Said("reasoning", text):
                return [self._part(thinking=text)]
            case Said():
                return [self._part(piece.text) | _scores(piece)]
            case CallPiece():
                return self._called(piece)
            case Ended():
                return [self._end(piece)]

    def refused(self, refusal: Refusal) -> Refusal:
        """Return the refusal, which names `num_ctx` if the model was loaded with a shorter context
        than the client expects."""
        if not 0 < refusal.context < self.context:
            return refusal
        shorter = f"num_ctx is {self.context}, but the model was loaded with {refusal.context}."
        return replace(refusal, message=f"{refusal.message} {shorter}", param="options.num_ctx")

    def nothing(self, reason: str) -> Json:
        """The answer to a request without a prompt. `reason`: "load" or "unload"."""
        return {**self._part(), "done": True, "done_reason": reason}

    @property
    def whole(self) -> Json:
        """The whole answer: the last object, which has the figures, with all texts."""
        whole = deepcopy(self._parts[-1])
        within = whole["message"] if self.chat else whole
        for part in self._parts[:-1]:
            more = part["message"] if self.chat else part
            for name in ("content", "response", "thinking", "tool_calls"):
                if name in more:
                    within[name] = within[name] + more[name] if name in within else more[name]
        if scores := [score for part in self._parts for score in part.get("logprobs", ())]:
            whole["logprobs"] = scores
        return whole

    def _part(self, text: str = "", *, thinking: str = "", calls: list[Json] | None = None) -> Json:
        more: Json = ({"thinking": thinking} if thinking else {}) | (
            {"tool_calls": calls} if calls else {}
        )
        now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        head = {"model": self.model, "created_at": now}
        message = {"message": {"role": "assistant", "content": text, **more}}
        return head | (message if self.chat else {"response": text, **more}) | {"done": False}

    def _called(self, piece: CallPiece) -> list[Json]:
        if piece.name:
            self._name, self._arguments = piece.name, ""
        self._arguments += piece.arguments
        if not piece.ended:
            return []
        function = {"name": self._name, "arguments": arguments_in(self._arguments)}
        return [self._part(calls=[{"id": call_id(), "function": function}])]

    def _end(self, ended: Ended) -> Json:
        whole, stats = perf_counter_ns() - self._began, ended.usage.stats
        times = (stats.prefill_seconds, stats.decode_seconds)
        read, wrote = (int(seconds * 1e9) for seconds in times)
        return (
            self._part()
            | _scores(ended)
            | {
                "done": True,
                "done_reason": "length" if ended.reason == "length" else "stop",
                "total_duration": whole,
                "load_duration": max(0, whole - read - wrote),  # with the wait for a turn
                "prompt_eval_count": stats.prompt_tokens,
                "prompt_eval_duration": read,
                "eval_count": stats.committed,
                "eval_duration": wrote,
            }
        )


def _scores(piece: Said | Ended) -> Json:
    return {"logprobs": chat_logprobs(piece.logprobs)} if piece.logprobs else {}


async def chat(service: Service, call: Call) -> Response:
    """POST /api/chat: write the next message of a chat."""
    body = read_fields(OllamaChatBody, call.body)
    writer = _writer(service, body, chat=True)
    if not body.messages:
        return await _kept(service, body, writer)
    return await _answered(service, call, body, writer, partial(chat_ask, body))


async def generate(service: Service, call: Call) -> Response:
    """POST /api/generate: answer a prompt, or continue a text."""
    body = read_fields(GenerateBody, call.body)
    writer = _writer(service, body, chat=False)
    if not body.prompt and not body.suffix and not body.images:
        return await _kept(service, body, writer)
    return await _answered(service, call, body, writer, partial(generate_ask, body))


def _writer(service: Service, body: AnswerFields, *, chat: bool) -> ReplyWriter:
    return ReplyWriter(service.model, chat=chat, context=body.options.num_ctx or 0)


def read_fields[B: AnswerFields](kind: type[B], given: Any) -> B:
    """Read a body. Some clients send options as fields, or fields as options."""
    if isinstance(given, dict) and isinstance(options := given.get("options") or {}, dict):
        given, inner = {**given, **options}, names_of(Options) - names_of(kind)
        options = {name: given.pop(name) for name in given.keys() & inner}
        given["options"] = options
    return read_body(kind, given)


async def _kept(service: Service, body: AnswerFields, writer: ReplyWriter) -> Response:
    """Load or unload the model: a request without a prompt asks for that."""
    keep_seconds = _keep_seconds(body)
    if keep_seconds == 0:
        if service.pair.alive:  # the next load is not meant
            service.pair.keep_seconds = 0.0
        return json_reply(writer.nothing("unload"))
    async with service.pool.using(service.pair, keep_seconds=keep_seconds):
        return json_reply(writer.nothing("load"))


async def _answered(
    service: Service,
    call: Call,
    body: AnswerFields,
    writer: ReplyWriter,
    ask_of: Callable[[Loaded], Ask],
) -> Response:
    keep = _keep_seconds(body)
    try:
        return await service.reply(call, ask_of, writer, stream=body.stream, keep_seconds=keep)
    except Refusal as refusal:
        raise writer.refused(refusal) from None


def _keep_seconds(body: AnswerFields) -> float | None:
    """Return how long the model stays loaded, if the client says so."""
    given = body.keep_alive
    if given is None or given == "":
        return None
    try:
        return keep_seconds(given if isinstance(given, str) else f"{given + 0.0:f}")  # not -0
    except Problem as problem:
        raise invalid(str(problem), "keep_alive") from None


VERSION = "0.13.5"  # of Ollama, whose API this is; clients ask for features by it


async def tags(service: Service, call: Call) -> Response:
    """List the models that can be asked."""
    return json_reply({"models": [await _listed(pair) for pair in _pairs(service)]})


async def ps(service: Service, call: Call) -> Response:
    """List the models that are loaded."""
    loaded = [(pair, pair.link.loaded) for pair in _pairs(service)]
    return json_reply(
        {
            "models": [
                await _listed(pair)
                | {
                    "expires_at": _expires(pair),
                    "size_vram": pair.fit.needed_bytes if pair.fit else 0,
                    "context_length": content.context_length,
                }
                for pair, content in loaded
                if content is not None
            ]
        }
    )


async def show(service: Service, call: Call) -> Response:
    """Describe a model."""
    body = read_body(ShowBody, call.body)
    if not body.model:
        raise invalid("model: Field required.", "model", "missing_required_parameter")
    service = service.asked_for(body.model)
    pair = service.pair
    loaded = pair.link.loaded
    listed = await _listed(pair)
    abilities = {
        "tools": True,  # written as text if the template does not support them
        "thinking": loaded is not None and loaded.reasons,
        "insert": loaded is not None and loaded.fills_gaps,
        "vision": loaded is not None and loaded.sees,
    }
    return json_reply(
        {
            "modelfile": "",
            "parameters": f"num_ctx {loaded.context_length}" if loaded else "",  # clients read it
            "template": "",
            "details": listed["details"],
            "model_info": await asyncio.to_thread(_model_info, pair),
            "capabilities": ["completion", *(name for name, able in abilities.items() if able)],
            "modified_at": listed["modified_at"],
        }
    )


async def version(service: Service, call: Call) -> Response:
    """Say which version of Ollama's API this is."""
    return json_reply({"version": VERSION})


def _pairs(service: Service) -> list[Pair]:
    return [pair for pair in service.pool.pairs if pair.name]


async def _listed(pair: Pair) -> Json:
    described = await asyncio.to_thread(_described, pair.target)
    return {"name": pair.name, "model": pair.name, **described}


def _expires(pair: Pair) -> str:
    left = pair.expires - asyncio.get_running_loop().time()
    if left > 365 * 86_400:
        return "9999-12-31T23:59:59Z"
    return _time(datetime.now(UTC) + timedelta(seconds=max(0.0, left)))


def _time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _described(target: str) -> Json:
    """The size, the date and the details of the model in a folder, as it is now."""
    changed = 0.0
    with suppress(OSError):
        changed = (Path(target) / "config.json").stat().st_mtime
    return _details(target, changed)


@lru_cache(64)
def _details(target: str, changed: float) -> Json:
    folder = ModelFolder(Path(target))
    counted, family, bits, size = None, "", None, 0
    with suppress(Problem, OSError):
        counted, family = count_parameters(folder.config), folder.model_type
        bits = folder.quantization_bits
        size = folder.size_bytes
    return {
        "modified_at": _time(datetime.fromtimestamp(changed, UTC)),
        "size": size,
        "digest": hashlib.sha256(f"{target} {size} {changed}".encode()).hexdigest(),
        "details": {
            "parent_model": "",
            "format": "safetensors",
            "family": family,
            "families": [family] if family else [],
            "parameter_size": _in_words(counted.total) if counted else "",
            "quantization_level": f"Q{bits}" if bits else "F16",
        },
    }


def _model_info(pair: Pair) -> Json:
    family = _described(pair.target)["details"]["family"] or "unknown"
    config: Mapping[str, Any] = {}
    with suppress(Problem):
        config = ModelFolder(Path(pair.target)).config
    counted, loaded = count_parameters(config), pair.link.loaded
    context = loaded.context_length if loaded else context_of(pair.target) or 0
    return {
        "general.architecture": family,
        "general.parameter_count": counted.total if counted else 0,
        f"{family}.context_length": context,
        f"{family}.embedding_length": number(config, "hidden_size") or 0,
        f"{family}.block_count": number(config, "num_hidden_layers") or 0,
    }


def _in_words(parameters: int) -> str:
    return f"{parameters / 1e9:.1f}B" if parameters >= 1e9 else f"{parameters / 1e6:.0f}M"
