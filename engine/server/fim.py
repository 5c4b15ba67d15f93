"""Fill in the middle: writes a prompt from the text before a gap and the text after it.

Each family of code models has its own tokens for that; the tokenizer shows the family.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Gap:
    """The prompt of a gap, and the stop strings of its answer."""

    prompt: str
    stops: tuple[str, ...]


_QWEN_ENDS = ("<|fim_pad|>", "<|repo_name|>", "<|file_sep|>", "<|file_separator|>", "<|endoftext|>")
_FORMS: Mapping[str, tuple[str, ...]] = {
    # Qwen2.5-Coder, Qwen3-Coder, CodeGemma
    "<|fim_prefix|>@P<|fim_suffix|>@S<|fim_middle|>": _QWEN_ENDS,
    # StarCoder2, Granite
    "<fim_prefix>@P<fim_suffix>@S<fim_middle>": ("<fim_pad>", "<file_sep>", "<|endoftext|>"),
    "<PRE> @P <SUF>@S <MID>": ("<EOT>",),  # CodeLlama
    "<｜fim▁begin｜>@P<｜fim▁hole｜>@S<｜fim▁end｜>": (),  # DeepSeek-Coder
    "[SUFFIX]@S[PREFIX]@P": (),  # Codestral
}
"""Forms, with @P for the text before the gap and @S for the text after it, and the tokens that end
a filled gap."""
_PLACE = re.compile("@[PS]")


def gap_of(before: str, behind: str, tokens: Collection[str]) -> Gap | None:
    """The prompt of a gap, for a model with these tokens; None if it has none for gaps."""
    texts = {"@P": before, "@S": behind}
    for form, ends in _FORMS.items():
        if all(_known(mark, tokens) for mark in _PLACE.sub(" ", form).split()):
            prompt = _PLACE.sub(lambda place: texts[place[0]], form)
            return Gap(prompt, tuple(end for end in ends if _known(end, tokens)))
    return None


def _known(mark: str, tokens: Collection[str]) -> bool:
    return mark in tokens or f"▁{mark}" in tokens
