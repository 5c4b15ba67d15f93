"""Turns the bodies of Ollama's API into an `Ask`. Pure."""

from typing import Any, get_args

from engine.process.protocol import Loaded
from engine.request import ChatMessage, Grammar, Prompt, Request, Role
from engine.server.answers import Ask
from engine.server.choosing import check_choice, tools_json
from engine.server.errors import invalid
from engine.server.fields import sampling_in
from engine.server.fim import Gap
from engine.server.forms import OBJECT, form_in, schema_form
from engine.server.messages import conversation_of, images_in
from engine.server.ollama.bodies import AnswerFields, GenerateBody, OllamaChatBody


def chat_ask(body: OllamaChatBody, loaded: Loaded) -> Ask:
    """Make an `Ask` of a chat. Raises Refusal."""
    check_choice(body.choice, [function["name"] for function in body.callable_functions])
    prompt = Prompt(
        messages=conversation_of(body.messages, get_args(Role)),
        tools=tools_json(body.callable_functions),
        options=body.variables,
    )
    return Ask(
        prompt=prompt, request=_request(body, loaded), choice=body.choice, hidden=body.hidden
    )


def generate_ask(body: GenerateBody, loaded: Loaded, gap: Gap | None) -> Ask:
    """Make an `Ask` of a prompt, or of a `gap` in one. Raises Refusal."""
    if body.images and (gap is not None or body.raw):
        message = "Images are shown in a chat: neither in a raw prompt nor beside a suffix."
        raise invalid(message, "images", "unsupported_content")
    if gap is not None:
        request = _request(body, loaded, stops=gap.stops, special=True)
        return Ask(prompt=Prompt(text=gap.prompt), request=request)
    prompt = Prompt(text=body.prompt)
    if not body.raw:
        messages = [ChatMessage("system", body.system)] if body.system else []
        question = ChatMessage("user", body.prompt, pictures=images_in(body.images, "images"))
        prompt = Prompt(messages=(*messages, question), options=body.variables)
    return Ask(prompt=prompt, request=_request(body, loaded), hidden=body.hidden)


def _request(
    body: AnswerFields, loaded: Loaded, *, stops: tuple[str, ...] = (), **more: Any
) -> Request:
    options, context = body.options, loaded.context_length
    limits = (options.num_predict, options.num_ctx, context)
    seed = None if options.seed == -1 else options.seed
    return Request(
        sampling=sampling_in(options.model_copy(update={"seed": seed}), loaded),
        max_tokens=min(next(limit for limit in limits if limit is not None and limit > 0), context),
        stops=(*options.stop, *stops),
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
