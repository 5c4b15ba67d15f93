"""Plain texts of a target, and the near ties and real differences of other greedy texts."""

from dataclasses import dataclass

import mlx.core as mx

from engine.draft_length.policy import Fixed
from engine.drafters import NoDrafter
from engine.near_ties import Fork
from tests.support.engine.helpers import task, write

MOST_TIES = 8  # in one text, after each of which it is compared again


@dataclass(frozen=True, slots=True)
class Rounding:
    """The rounding of passes over `rows` rows along a text of `tokens` tokens that single rows
    wrote: the largest `difference` of a logit, and the number of places where another token came
    first (`forks`)."""

    rows: int
    tokens: int
    difference: float
    forks: int


def first_fork(plain, written, *, margins, roundings):
    """Return the first difference of `written` from the `plain` text, whose `margins` are given
    token by token; None if there is none. The end of a text counts as the token -1."""
    allowed = 2.0 * max((each.difference for each in roundings), default=0.0)
    for at in range(max(len(plain), len(written))):
        ours = plain[at] if at < len(plain) else -1
        theirs = written[at] if at < len(written) else -1
        if ours != theirs:
            ended = -1 in (ours, theirs)
            margin = float("inf") if ended else margins[at]
            return Fork(at, ours, theirs, margin, allowed)
    return None


@dataclass(frozen=True, slots=True)
class PlainText:
    """A plain text after a prompt, and the margin by which each token came first. Single passes,
    made again, put another token first at `unrepeated` places."""

    text: list[int]
    margins: list[float]
    unrepeated: int


class PlainTexts:
    """Writes one target's plain text after any prompt, each once.

    `decoder` makes a new decoder. The device's rounding is measured with passes over each of
    `rows`.
    """

    def __init__(self, decoder, *, rows):
        self._decoder, self._rows = decoder, rows
        self._plain = {}

    def plain(self, prompt, count):
        """Return the plain text of `count` tokens after `prompt`."""
        key = (*prompt, count)
        if key not in self._plain:
            text = write(self._decoder(), NoDrafter(), Fixed(0), list(prompt), task(count)).tokens
            single = self._read(prompt, text, 1)
            best = mx.sort(mx.topk(single, 2, axis=-1), axis=-1)
            margins = (best[:, 1] - best[:, 0]).tolist()
            self._plain[key] = PlainText(text, margins, _count(mx.argmax(single, -1), text))
        return self._plain[key]

    def roundings(self, prompt, text):
        """Measure how passes over several rows round along a text."""
        single = self._read(prompt, text, 1)
        return [self._rounding(prompt, text, single, rows) for rows in self._rows]

    def forks(self, prompt, written, roundings):
        """Yield the places where a text differs from the plain one; after a near tie it is
        compared with what plain decoding would write there, and after a real difference no
        further."""
        for _ in range(MOST_TIES):
            plain = self.plain(prompt, len(written))
            fork = first_fork(plain.text, written, margins=plain.margins, roundings=roundings)
            if fork is None:
                return
            yield fork
            prompt, written = [*prompt, *written[: fork.at + 1]], written[fork.at + 1 :]
            if not fork.near_tie or not written:
                return

    def _rounding(self, prompt, text, single, rows):
        block = self._read(prompt, text, rows)
        difference = mx.max(mx.abs(block - single)).item()
        return Rounding(rows, len(text), difference, _count(mx.argmax(block, -1), text))

    def _read(self, prompt, text, rows):
        """The logits after the prompt and each token of the text but the last, (n, vocabulary),
        read by so many rows."""
        decoder, tokens, logits = self._decoder(), [*prompt, *text], []
        for _ in decoder.prefill(list(prompt)):
            pass
        unread, start = tokens[len(prompt) - 1 : -1], 0
        while start < len(unread):
            end = start + min(rows, decoder.timeline.room())
            logits.append(decoder.read(mx.array(unread[start:end])))
            mx.eval(logits[-1])
            start = end
        return mx.concatenate(logits).astype(mx.float32)


def _count(ids, text):
    """Return the number of places at which they differ."""
    return sum(a != b for a, b in zip(ids.tolist(), text, strict=True))
