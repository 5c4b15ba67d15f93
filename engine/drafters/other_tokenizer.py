"""A model with another tokenizer drafts (Timor et al., arXiv 2502.05202).

It reads the committed text in tokens of its own (`reencoding`), and drafts among the tokens that
both have: its logits of these go through the sampler chain, which makes q whole again (the paper's
token-level intersection). So each token has the reported distribution, and no special token is
drafted.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy

import mlx.core as mx

from engine.core.decoder import Decoder
from engine.draft_length import LONGEST, DraftCandidate, DraftChoice
from engine.drafters import DraftArrays, Drafter
from engine.drafters.chain import DraftRequest, draft_chain
from engine.drafters.model import Abridged
from engine.drafters.reencoding import Reencoding, Writing
from engine.drafters.rows import Rows
from engine.near_ties import alike
from engine.request import Sampling
from models.token_tables import shared_tokens


class Translation:
    """The tokenizers of target and drafter, and the tokens that both have.

    `own`: from a token of the target to the same token of the drafter. `shared`: these tokens of
    the target as rows; `drafters` (rows,): the drafter's token of each row.
    """

    def __init__(self, target: Writing, drafter: Writing, *, vocabulary: int, rows: int) -> None:
        """`rows`: the number of the drafter's logits."""
        self.target, self.drafter = target, drafter
        shared = shared_tokens(target.spelled, drafter.spelled)
        self.own: Mapping[int, int] = {
            token: row for token, row in shared.items() if token < vocabulary and row < rows
        }
        self.shared = Rows(vocabulary, list(self.own))
        self.drafters = mx.array(list(self.own.values()))


class OtherTokenizerDrafter(Drafter):
    """Drafts with a model whose tokens are not the target's."""

    name = "model"

    def __init__(self, decoder: Decoder, translation: Translation) -> None:
        self._decoder = decoder
        self._translation = translation
        self._abridged = Abridged()
        self._text = Reencoding(translation.target, translation.drafter)
        self._sure = self._text.settled  # how many of its tokens it reads as they are
        self._read: list[int] = []  # its next tokens
        self._committed = self._accepted = 0  # how many tokens, when it drew; and of those it drew

    def fork(self, target: Decoder) -> Drafter:
        if not target.length:
            return OtherTokenizerDrafter(self._decoder.another(), self._translation)
        other = copy(self)
        other._decoder, _recorded = self._decoder.copy()
        other._text, other._read = self._text.copy(), list(self._read)
        return other

    def leave_out(self, skippable: Callable[[], Sequence[range]]) -> None:
        self._abridged = self._abridged.changed(skippable(), rewind=self.rewind)

    def prepare(self, tokens: list[int]) -> Iterator[int]:
        yield from self._decoder.prefill(self._follow(tokens))
        self._decoder.timeline.bookmark()

    def candidates(self, tokens: list[int]) -> Sequence[DraftCandidate]:
        behind = max(len(self._follow(tokens)) - self._decoder.length - 2, 0)
        return (DraftCandidate(self.name, LONGEST, behind=behind),)

    def propose(
        self, tokens: list[int], choice: DraftChoice, sampling: Sampling, key: mx.array
    ) -> DraftArrays | None:
        own = self._follow(tokens)
        if self._text.waiting or not own or self._abridged.ends_in_gap(tokens):
            return None  # for the rest of a character, for any text, or for the end of a gap
        room = self._decoder.begin_round(own)
        self._committed = len(tokens)
        choice = choice.within(room + 1)  # the last one is not read
        shared, drafters = self._translation.shared, self._translation.drafters
        unread = [mx.array(own[self._decoder.length :])]

        def read(drawn: mx.array) -> mx.array:
            inputs = unread.pop() if unread else drafters[shared.of(drawn)]
            return self._decoder.read(inputs)[-1:, drafters]

        asked = DraftRequest(tokens, choice, sampling, key, shared, self.name)
        return draft_chain(read, asked, unread=[])

    def accept(self, path: Sequence[int]) -> None:
        self._accepted = len(path)
        self._take_back()

    def rewind(self, length: int) -> None:
        self._accepted = min(self._accepted, max(length - self._committed, 0))
        self._text.rewind(self._abridged.length(length))
        if self._text.settled < self._sure:
            self._sure, self._read = self._text.settled, []
        self._take_back()

    def _follow(self, tokens: list[int]) -> list[int]:
        """Return the committed tokens as tokens of the drafter. The drafter takes back anything
        else that it has read, and the last token, which the next draft reads."""
        drawn = tokens[self._committed : self._committed + self._accepted]
        self._read += [self._translation.own[token] for token in drawn]
        self._accepted = 0
        self._text.follow(self._abridged.of(tokens))
        self._take_back()
        own, settled = self._text.tokens, self._text.settled
        self._decoder.rewind(max(len(own) - 1, 0))
        self._sure, self._read = settled, own[settled:]
        return own

    def _take_back(self) -> None:
        """Take back all that was read except the text that it follows, and the tokens accepted
        since."""
        text = self._text.tokens[self._sure :]
        agreeing = alike(self._read, text)
        if agreeing == len(text):
            agreeing += self._accepted
        self._decoder.rewind(self._sure + agreeing)
