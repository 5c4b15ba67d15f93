"""Turns the rounds of an answer into events, with texts in place of token ids.

Keeps the laws of `engine.events`. Knows a tokenizer, and nothing of models.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest

from engine.conversation.text import AnswerText, TokenTexts
from engine.core.rounds import Logprob, Round, RoundDraft, RoundForced, RoundVerdict
from engine.events import (
    Draft,
    DraftedToken,
    Origin,
    Source,
    Span,
    Text,
    TokenLogprob,
    TokenVerdict,
    TopToken,
    Verdict,
    WrittenToken,
)
from engine.stretches import Stretch
from engine.tree import COMMITTED, Tree

_FORCED = "nothing else is allowed here"


class AnswerEvents:
    """Turns the rounds of one answer into events. Attribute: `text`, the answer's.

    `source_of(position)`: the character of the chat that a committed token begins with.
    """

    def __init__(
        self,
        generation: str,
        token_texts: TokenTexts,
        text: AnswerText,
        source_of: Callable[[int], Source | None],
    ) -> None:
        self.text = text
        self._source_of = source_of
        self._generation = generation
        self._token_texts = token_texts
        self._number = 1  # of the round
        self._committed: deque[tuple[int, int]] = deque()  # (round, index) without a span

    def push(
        self, item: Round, seconds: float, *, accompanied: bool
    ) -> Iterator[Draft | Verdict | Text]:
        """Yield the events of `item`. The round took `seconds`; `accompanied`: other answers had
        turns within that time."""
        if isinstance(item, RoundDraft):
            yield self._draft(item)
            return
        if isinstance(item, RoundForced):
            verdict = self._forced(item, seconds)
        else:
            verdict = self._verdict(item, seconds)
        yield replace(verdict, accompanied=accompanied)
        self._committed.extend((self._number, index) for index in range(len(item.committed)))
        self._number += 1
        delta, lengths, stretches = self.text.push(item.committed)
        if delta:
            written = self._written(delta, lengths, stretches)
            yield replace(written, calls=self.text.calls())

    def finish(self, *, cut: bool) -> Iterator[Text]:
        """Yield the text that was held back. `cut`: the model was not ready."""
        delta, lengths, stretches = self.text.finish(cut=cut)
        calls = self.text.calls()
        if lengths or calls:
            yield replace(self._written(delta, lengths, stretches), calls=calls)

    def _written(self, delta: str, lengths: Sequence[int], stretches: tuple[Stretch, ...]) -> Text:
        spans = tuple(Span(*self._committed.popleft(), length) for length in lengths)
        return Text(self._generation, delta, spans, stretches)

    def _draft(self, draft: RoundDraft) -> Draft:
        parts = zip_longest(draft.tokens, draft.q, draft.confidence)
        spell = self._token_texts.text_of
        tokens = tuple(DraftedToken(token, spell(token), q, sure) for token, q, sure in parts)
        source = None if draft.source is None else self._source_of(draft.source)
        return Draft(self._generation, self._number, tokens, draft.drafter, draft.parents, source)

    def _forced(self, item: RoundForced, seconds: float) -> Verdict:
        spell = self._token_texts.text_of
        certain = Logprob(0.0, [])
        return Verdict(
            *(self._generation, self._number, 0, (), None, 0.0, 0.0, seconds, _FORCED),
            forced=tuple(WrittenToken(t, spell(t), 1.0, "forced") for t in item.committed),
            logprobs=tuple(token_logprob(t, certain, self._token_texts) for t in item.committed)
            if item.with_logprobs
            else (),
        )

    def _verdict(self, item: RoundVerdict, seconds: float) -> Verdict:
        logprobs = zip(item.committed, item.logprobs, strict=False)
        return Verdict(
            self._generation,
            self._number,
            item.accepted,
            tuple(map(TokenVerdict, item.p, item.chance)),
            self._own(item),
            item.draft_seconds,
            item.verify_seconds,
            seconds,
            str(item.reason),
            logprobs=tuple(token_logprob(*pair, self._token_texts) for pair in logprobs),
            parents=item.parents,
            path=item.path if item.parents else (),
            edge=item.edge,
        )

    def _own(self, verdict: RoundVerdict) -> WrittenToken | None:
        if verdict.own is None:
            return None
        origin: Origin = "plain"
        if verdict.p:
            last = verdict.path[-1] if verdict.path else COMMITTED
            tree = Tree(verdict.parents) if verdict.parents else Tree.chain(len(verdict.p))
            origin = "correction" if tree.children(last) else "bonus"
        text = self._token_texts.text_of(verdict.own)
        return WrittenToken(verdict.own, text, verdict.own_p, origin)


def token_logprob(token: int, logprob: Logprob, texts: TokenTexts) -> TokenLogprob:
    """Return a token's log probability for an event."""
    top = (TopToken(id, tuple(texts.bytes_of(id)), value) for id, value in logprob.top)
    return TokenLogprob(token, tuple(texts.bytes_of(token)), logprob.own, tuple(top))
