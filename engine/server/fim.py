"""Fill in the middle: writes a prompt from the text before a gap and the text after it.

Each family of code models has its own tokens for that; the tokenizer shows the family.
"""

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class _Family:
    """A family of code models. `form` has @P for the text before the gap, @S for the text after
    it. `marks`: the tokens by which it is recognized; `ends`: the tokens that end a filled gap."""

    form: str
    marks: tuple[str, ...]
    ends: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Gap:
    """The prompt of a gap, and the stop strings of its answer."""

    prompt: str
    stops: tuple[str, ...]


_FAMILIES = (
    _Family(  # Qwen2.5-Coder, Qwen3-Coder, CodeGemma
        "<|fim_prefix|>@P<|fim_suffix|>@S<|fim_middle|>",
        ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"),
        ("<|fim_pad|>", "<|repo_name|>", "<|file_sep|>", "<|file_separator|>", "<|endoftext|>"),
    ),
    _Family(  # StarCoder2, Granite
        "<fim_prefix>@P<fim_suffix>@S<fim_middle>",
        ("<fim_prefix>", "<fim_suffix>", "<fim_middle>"),
        ("<fim_pad>", "<file_sep>", "<|endoftext|>"),
    ),
    _Family(  # CodeLlama
        "<PRE> @P <SUF>@S <MID>",
        ("▁<PRE>", "▁<SUF>", "▁<MID>"),
        ("<EOT>",),
    ),
    _Family(  # DeepSeek-Coder
        "<｜fim▁begin｜>@P<｜fim▁hole｜>@S<｜fim▁end｜>",
        ("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"),
        (),
    ),
    _Family("[SUFFIX]@S[PREFIX]@P", ("[SUFFIX]", "[PREFIX]"), ()),  # Codestral
)


def gap_of(before: str, behind: str, tokens: Collection[str]) -> Gap | None:
    """The prompt of a gap, for a model with these tokens; None if it has none for gaps."""
    for family in _FAMILIES:
        if all(mark in tokens for mark in family.marks):
            first, _, rest = family.form.partition("@")
            texts = {"P": before, "S": behind}
            second, _, last = rest[1:].partition("@")
            prompt = first + texts[rest[0]] + second + texts[last[0]] + last[1:]
            return Gap(prompt, tuple(end for end in family.ends if _known(end, tokens)))
    return None


def _known(end: str, tokens: Collection[str]) -> bool:
    return end in tokens or f"▁{end}" in tokens
