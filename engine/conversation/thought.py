"""Ends the reasoning of an answer early: after a number of tokens, or when the user asks.

The text that closes reasoning in the model's template is forced, as a grammar forces tokens. The
drafts of a round end where the budget does, so that every drafter gives the same answer.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal

import mlx.core as mx

from engine.conversation.template import abilities_for, closing_of, encode_piece, reply_syntax
from engine.conversation.text import TokenTexts, ending_of
from engine.core.rounds import NO_LIMIT, Constraint
from engine.replies.families import ReasoningMarks
from engine.request import Prompt, Request

_HARMONY = ReasoningMarks("<|channel|>analysis<|message|>", "<|end|>")


class Thought:
    """The rules of an answer that may begin with reasoning: its grammar, and the end of the
    reasoning.

    Attributes: `forcing` and `room` as in `Constraint`.
    """

    def __init__(
        self,
        rules: Constraint,
        marks: ReasoningMarks,
        *,
        closing: str,
        encode: Callable[[str], list[int]],
        text_of: Callable[[int], str],
        budget: int | None,
        begun: Literal["before", "inside", "over"],
    ) -> None:
        """`closing`: the text that ends reasoning, with `marks.closing` in it; `budget`: the most
        tokens of reasoning; `begun`: where in its reasoning the answer begins."""
        self._rules, self._marks, self._closing = rules, marks, closing
        self._encode, self._text_of = encode, text_of
        self._left, self._state = budget, begun
        self._text = ""  # the last of it, while the reasoning is not over
        self._ended = False  # whether `end` was called
        self.forcing, self.room = rules.forcing, NO_LIMIT
        self._look_ahead()

    def end(self) -> None:
        """End the reasoning with the next round. Does nothing to an answer that does not reason."""
        self._ended = self._state == "inside"
        self.forcing |= self._ended

    def forced(self, most: int) -> list[int]:
        if self._state == "inside" and (self._ended or self._left == 0):
            closing = self._encode(_lacking(self._text, self._closing))[:most]
            if allowed := self._rules.allowed(closing):
                return closing[:allowed]
        return self._rules.forced(most)

    def allowed(self, drafted: list[int]) -> int:
        return self._rules.allowed(drafted)

    def masks(self, drafted: list[int]) -> mx.array | None:
        return self._rules.masks(drafted)

    def commit(self, tokens: list[int]) -> None:
        self._rules.commit(tokens)
        before = self._state
        for token in tokens:
            self._take(token)
        # The pass after a closing text reads many rows, which no draft is charged for.
        closed = (before, self._state) == ("inside", "over")
        self.forcing = self._rules.forcing or closed
        self._look_ahead()

    def _take(self, token: int) -> None:
        if self._state == "over":
            return
        if self._state == "inside" and self._left is not None:
            self._left = max(0, self._left - 1)
        self._text += self._text_of(token)
        if self._state == "before":
            said, opening = self._text.lstrip(), self._marks.opening.rstrip()
            if said.startswith(opening):
                self._state, self._text = "inside", said.removeprefix(opening)
            elif not opening.startswith(said):
                self._state = "over"
        if self._state == "inside" and self._marks.closing in self._text:
            self._state = "over"
        if self._state == "inside":
            self._text = self._text[-len(self._closing) :]

    def _look_ahead(self) -> None:
        """Set the tokens up to the end of the budget, which begins after the opening."""
        self.room = NO_LIMIT
        if self._left is not None and self._state != "over":
            self.room = max(1, self._left + (self._state == "before"))


def with_thought(
    rules: Constraint,
    tokenizer: Any,
    texts: TokenTexts,
    prompt: Prompt,
    request: Request,
    tokens: Sequence[int],
) -> Constraint:
    """The rules of an answer to `prompt`, whose `tokens` are these: a `Thought` if the model's
    template shows how it reasons."""
    if not prompt.messages:
        return rules
    able, syntax = abilities_for(tokenizer), reply_syntax(tokenizer)
    marks = _HARMONY if syntax.family == "harmony" else syntax.reasoning
    closing = closing_of(able, syntax)
    if marks is None or marks.closing not in closing:
        return rules
    last, begun = prompt.messages[-1], syntax.begins_inside(ending_of(tokenizer, tokens))
    state: Literal["before", "inside", "over"] = "inside" if begun else "before"
    if last.role == "assistant":  # it is continued
        opened = syntax.begins_inside(able.beginning) and request.thinking != "off"
        written = last.written or last.content
        opened |= written.lstrip().startswith(marks.opening.rstrip())
        thinks = opened and marks.closing not in written
        within = thinks if last.written else bool(last.reasoning) and not last.content
        state = "inside" if within else "over"
    return Thought(
        rules,
        marks,
        closing=closing,
        encode=lambda text: encode_piece(tokenizer, text),
        text_of=texts.text_of,
        budget=request.thinking_budget,
        begun=state,
    )


def _lacking(text: str, closing: str) -> str:
    """The part of `closing` that `text` does not end with."""
    sizes = range(len(closing), -1, -1)
    return next(closing[size:] for size in sizes if text.endswith(closing[:size]))
