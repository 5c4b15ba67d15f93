"""Finds the notation of calls in a template of an unknown family, from its output.

The texts are the same answer with other words in it, so what differs shows which text is a mark.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

from engine.near_ties import alike
from engine.replies.families import CallRow, Form, ReasoningMarks

NAME, KEY, VALUE = "toolword", "argumentword", "valueword"
OTHER_KEY, OTHER = "furtherargumentword", "otherword"
_TAG = re.compile(r"<[^<>]+>|\[[^\[\]]+\]")
_PART_OF_TAG = re.compile(r"<[^>]*$")
_DECODER = json.JSONDecoder()


def call_row(single: str, *, two: str = "", wide: str = "") -> CallRow | None:
    """The row of a template's calls; None if it is not to be seen.

    `single`: an answer that calls the tool NAME with {KEY: VALUE}; `two`: an answer with two calls,
    the other with {KEY: OTHER}; `wide`: a call with {KEY: VALUE, OTHER_KEY: OTHER}. Example:
    '<call>toolword {"argumentword": "valueword"}</call>' gives a row that begins with "<call>".
    """
    found = _json_form(single) or _tags_form(single, wide)
    if found is None:
        return None
    form, head, named, key, tail = found
    opening, begin, end, between, closing = "", head, tail, "", ""
    after = two.partition(VALUE)[2].partition(NAME)[0]
    if after:
        after = after[len(single.partition(VALUE)[2].removesuffix(tail)) :]
        begin = head[len(head) - alike(head[::-1], after[::-1]) :]
        if _PART_OF_TAG.search(head.removesuffix(begin)):
            begin = begin.partition(">")[2]
        after = after.removesuffix(begin)
        end = _whole(tail[: alike(tail, after)])
        opening, closing = head.removesuffix(begin), tail.removeprefix(end)
        between = after.removeprefix(end)
    row = CallRow(form, begin, named, end, opening, between, closing, key)
    return row if re.search(r"\W", row.trigger.strip()) and row.trigger not in "{[" else None


def answer_in(text: str, other: str) -> str:
    """An answer in a chat: what differs from the same chat with another answer, in whole tags."""
    start = alike(text, other)
    end = len(text) - alike(text[start:][::-1], other[start:][::-1])
    if part := _PART_OF_TAG.search(text[:start]):
        start = part.start()
    if _PART_OF_TAG.search(text[:end]):
        end = text.find(">", end) + 1 or len(text)
    return text[start:end]


def reasoning_marks(before: str, after: str) -> ReasoningMarks | None:
    """Return the marks around reasoning, from the texts before and after it; None if they cannot
    be recognized."""
    opening, closing = _TAG.findall(before), _TAG.findall(after)
    if not opening or not closing or opening[-1] == closing[0]:
        return None
    return ReasoningMarks(opening[-1], closing[0])


_Found = tuple[Form, str, str, tuple[str, str, str], str]
"""The form, the marks before and after the name, the marks of a key, and all after the
arguments."""


def _json_form(single: str) -> _Found | None:
    form: Form = "json"
    for start, end, value in _objects(single):
        if value == {KEY: VALUE}:
            head, name, named = single[:start].rpartition(NAME)
            return (form, head, named, ("", "", ""), single[end:]) if name else None
        if NAME in value.values() and {KEY: VALUE} in value.values():
            form = "object"
    return None


def _objects(text: str) -> Iterator[tuple[int, int, dict[str, Any]]]:
    for found in re.finditer(r"\{", text):
        try:
            value, end = _DECODER.raw_decode(text, found.start())
        except ValueError:
            continue
        if isinstance(value, dict):
            yield found.start(), end, value


def _tags_form(single: str, wide: str) -> _Found | None:
    found = re.fullmatch(f"(.*?){NAME}(.*?){KEY}(.*?){VALUE}(.*)", single, re.DOTALL)
    between = re.search(f"{VALUE}(.*?){OTHER_KEY}", wide, re.DOTALL)
    if found is None or between is None:
        return None
    head, before, keyed, tail = found.groups()
    closing = _whole(tail[: alike(tail, between[1])])
    opening = between[1].removeprefix(closing)
    if not opening.strip() or not closing.strip() or not before.endswith(opening):
        return None
    named, end = before.removesuffix(opening), tail.removeprefix(closing)
    return ("tags", head, named, (opening, keyed, closing), end) if end.strip() else None


def _whole(text: str) -> str:
    """The text without the beginning of a tag at its end."""
    return _PART_OF_TAG.sub("", text)
