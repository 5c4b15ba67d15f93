"""Gaps in texts, which models of code fill.

Each family has tokens of its own for a gap; their names show the family. Knows names of tokens.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from engine.request import Prompt, Request
from models.errors import Problem

_QWEN_ENDS = ("<|fim_pad|>", "<|repo_name|>", "<|file_sep|>", "<|file_separator|>", "<|endoftext|>")
_GAPS: Mapping[str, tuple[str, ...]] = {
    # Qwen2.5-Coder, Qwen3-Coder, CodeGemma
    "<|fim_prefix|>@P<|fim_suffix|>@S<|fim_middle|>": _QWEN_ENDS,
    # StarCoder2, Granite
    "<fim_prefix>@P<fim_suffix>@S<fim_middle>": ("<fim_pad>", "<file_sep>", "<|endoftext|>"),
    "<PRE> @P <SUF>@S <MID>": ("<EOT>",),  # CodeLlama
    "<｜fim▁begin｜>@P<｜fim▁hole｜>@S<｜fim▁end｜>": (),  # DeepSeek-Coder
    "[SUFFIX]@S[PREFIX]@P": (),  # Codestral
}
"""Forms of a prompt, with @P for the text before the gap and @S for the text after it, and the
tokens that end a filled gap."""
_PLACE = re.compile("@[PS]")
Knows = Callable[[str], bool]
"""Whether a tokenizer has a token of this name."""


def knows(tokenizer: Any) -> Knows:
    """Return `Knows` of a tokenizer."""
    unknown = (None, tokenizer.unk_token_id)
    return lambda name: tokenizer.convert_tokens_to_ids(name) not in unknown


def gap_form(knows: Knows) -> str | None:
    """Return the form of a model's gaps; None if it fills none."""
    return next((form for form in _GAPS if all(map(_known(knows), _marks(form)))), None)


def with_gap(prompt: Prompt, request: Request, knows: Knows) -> tuple[Prompt, Request]:
    """Return the prompt as the model reads it, and the request with the ends of a filled gap: both
    as they are without a suffix. Raises `Problem` if the model fills no gaps."""
    if not prompt.suffix:
        return prompt, request
    form = gap_form(knows)
    if form is None:
        message = "This model cannot fill gaps: it has no tokens for that."
        raise Problem(message, "Choose a model of code, or leave out the suffix.")
    texts = {"@P": prompt.text, "@S": prompt.suffix}
    stops = (*request.stops, *filter(_known(knows), _GAPS[form]))
    text = _PLACE.sub(lambda place: texts[place[0]], form)
    return Prompt(text=text), replace(request, stops=stops, special=True)


def _known(knows: Knows) -> Knows:
    return lambda mark: knows(mark) or knows(f"▁{mark}")


def _marks(form: str) -> list[str]:
    return _PLACE.sub(" ", form).split()
