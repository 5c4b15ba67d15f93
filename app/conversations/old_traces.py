"""Reads traces from before texts had spans: finds which token gave which text.

Until protocol 2 this was not stored. It is found in the text, token by token, by their spelling. If
the text differs (half characters, special tokens, stop strings), the text is right. Knows events;
not where they are stored.
"""

from collections import deque
from collections.abc import Sequence
from itertools import accumulate

from engine.conversation.rounds import Round, Rounds, joined
from engine.events import Done, Event, Failed, Span, Text

_HALF = "\ufffd"  # the spelling of half a character


def with_spans(events: Sequence[Event]) -> tuple[Event, ...]:
    """Return an old trace in today's form, with its texts cut between tokens. A trace of today is
    returned unchanged."""
    texts = [event for event in events if isinstance(event, Text)]
    if any(text.spans for text in texts):
        return tuple(events)
    search = _Search()
    for event in events:
        search.push(event)
    whole = "".join(text.delta for text in texts)
    ends = list(accumulate(search.lengths, initial=search.unknown))[1:]
    found: list[Event] = []
    known = spanned = 0  # tokens: with a verdict, with a span
    come = sent = 0  # characters
    for event, happening in zip(events, joined(events), strict=True):
        if isinstance(happening, Round):
            known += len(happening.committed)
        if isinstance(event, Text):
            come += len(event.delta)
        if isinstance(event, Text) and not known:
            sent = come
        elif isinstance(event, Text | Done):
            count = spanned
            while count < known and ends[count] <= come:
                count += 1
            end = ends[count - 1] if count > spanned else sent
            if end > sent or (isinstance(event, Done) and count > spanned):
                new = range(spanned, count)
                spans = tuple(Span(*search.tokens[n], search.lengths[n]) for n in new)
                found.append(Text(event.generation, whole[sent:end], spans))
                spanned, sent = count, end
            if isinstance(event, Text):
                continue
        found.append(event)
    return tuple(found)


class _Search:
    """Attributes: `tokens`, the round of each token and its index there; `lengths`, of the text of
    each; `unknown`, the length of the text before them."""

    def __init__(self) -> None:
        self.tokens: list[tuple[int, int]] = []
        self.lengths: list[int] = []
        self.unknown = 0
        self._rounds = Rounds()
        self._waiting: deque[tuple[int, str]] = deque()  # index in `tokens`, text to come

    def push(self, event: Event) -> None:
        match self._rounds.push(event):
            case Round() as one:
                for index, token in enumerate(one.committed):
                    self._waiting.append((len(self.tokens), token.text))
                    self.tokens.append((one.number, index))
                    self.lengths.append(0)
            case Text(delta=delta):
                self._find(delta)
            case Done() | Failed():
                self._waiting.clear()  # cut off: these tokens gave no text

    def _find(self, delta: str) -> None:
        """Assign the text `delta` to the tokens that wait for their text."""
        while delta and self._waiting:
            place, text = self._waiting[0]
            bare = text.removeprefix(" ")  # SentencePiece strips the first space of a text
            sure = text.partition(_HALF)[0]
            if text and delta.startswith(text):
                self.lengths[place] += len(text)
                self._waiting.popleft()
                delta = delta[len(text) :]
            elif text.startswith(delta):
                self.lengths[place] += len(delta)
                self._waiting[0] = (place, text[len(delta) :])
                return
            elif sure and sure != text and delta.startswith(sure):
                self.lengths[place] += len(sure)
                self._waiting[0] = (place, text[len(sure) :])
                delta = delta[len(sure) :]
            elif bare != text and bare and (delta.startswith(bare) or bare.startswith(delta)):
                self._waiting[0] = (place, bare)
            else:
                delta = self._pass_over(delta)
        if self.lengths:
            self.lengths[-1] += len(delta)
        else:
            self.unknown += len(delta)

    def _pass_over(self, delta: str) -> str:
        """Pass over tokens whose text is not in `delta`. Returns the rest of `delta`.

        Text before the next token that is found belongs to the last half character passed.
        """
        passed, found = 1, len(delta)
        owner = self._waiting[0][0]
        for index, (place, text) in enumerate(self._waiting):
            if _HALF in text:
                passed, owner = index + 1, place
            elif index and text and (start := _start(text, delta)) >= 0:
                passed, found = index, start
                break
        self.lengths[owner] += found
        for _ in range(passed):
            self._waiting.popleft()
        return delta[found:]


def _start(text: str, delta: str) -> int:
    """Return where in `delta` the token's text begins, whole or cut off at the end; -1 for
    nowhere."""
    return 0 if text.startswith(delta) else delta.find(text)
