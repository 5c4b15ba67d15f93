"""Traces for tests: any that a generation may have, with texts that tokens cut anywhere."""

from collections import deque
from pathlib import Path

from hypothesis import strategies as st

from engine.conversation.rounds import joined
from engine.conversation.stats import tally
from engine.conversation.text import AnswerText, TokenTexts
from engine.events import (
    Done,
    Draft,
    DraftedToken,
    Prefill,
    Span,
    Text,
    TokenVerdict,
    Verdict,
    WrittenToken,
    from_json,
)
from engine.tree import Tree

DATA = Path(__file__).parents[2] / "app" / "data"
END = 0

_ALPHABET = "ab \n<>é→😀\ufffd"


class Vocabulary:
    """A tokenizer of byte strings: token 0 ends the text and has no text of its own."""

    def __init__(self, tokens):
        self.tokens = [b"", *tokens]

    def decode(self, token_ids, skip_special_tokens=False, **_):
        ends = b"" if skip_special_tokens else b"<end>"
        parts = [self.tokens[token] if token != END else ends for token in token_ids]
        return b"".join(parts).decode(errors="replace")


# Whole words, single letters, and characters in every way that bytes can be cut.
VOCABULARY = Vocabulary(
    [
        *[letter.encode() for letter in _ALPHABET],
        *[b"ab", b" a", b" b", b"ba\n", b"aa", " é".encode()],
        *[bytes([byte]) for byte in sorted(set("é→😀".encode()))],
        b" \xf0",
        b"\x9f\x98",
        b"\x80a",
    ]
)
_ids = st.integers(1, len(VOCABULARY.tokens) - 1)
_chances = st.floats(0.0, 1.0)
_LONGEST = 6  # drafted tokens


@st.composite
def trees(draw):
    """A chain of any length, also none, or a tree of any shape."""
    size = draw(st.integers(0, _LONGEST))
    if draw(st.booleans()):
        return Tree.chain(size)
    return Tree(tuple(draw(st.integers(-1, number - 1)) for number in range(size)))


@st.composite
def traces(draw):
    """The events of a generation, as a session would make them; it may be cut short anywhere."""
    token_texts = TokenTexts(VOCABULARY)
    stops = draw(st.lists(st.text(_ALPHABET, min_size=1, max_size=3), max_size=2))
    text, tokens_to_tell = AnswerText(VOCABULARY, stops), deque()

    def tell(delta, lengths, stretches):
        if lengths:
            spans = tuple(Span(*tokens_to_tell.popleft(), length) for length in lengths)
            events.append(Text("g", delta, spans, stretches))

    events = [Prefill("g", 4, 9, 4, 0.0), Prefill("g", 9, 9, 4, 0.5)]
    shapes = draw(st.lists(st.none() | trees(), max_size=8))
    for number, tree in enumerate(shapes, start=1):
        if tree is None:
            forced = draw(st.lists(_ids, min_size=1, max_size=3))
            written = tuple(WrittenToken(t, token_texts.text_of(t), 1.0, "forced") for t in forced)
            events.append(Verdict("g", number, 0, (), None, 0.0, 0.0, 0.01, "the grammar", written))
            tokens_to_tell.extend((number, index) for index in range(len(forced)))
            tell(*text.push(forced))
            if text.stopped:
                break
            continue
        guesses = draw(st.lists(_ids, min_size=len(tree), max_size=len(tree)))
        end = draw(st.integers(-1, len(tree) - 1))  # the last accepted token
        path, parents = tree.path(end), () if tree.is_chain else tree.parents
        own = draw(_ids)
        last = number == len(shapes)
        if last and path and draw(st.booleans()):
            guesses[end], own = END, None
        elif last and draw(st.booleans()):
            own = END
        if guesses:
            tokens = tuple(DraftedToken(t, token_texts.text_of(t), draw(_chances)) for t in guesses)
            events.append(Draft("g", number, tokens, "model", parents))
        origin = "correction" if tree.children(end) else "bonus" if guesses else "plain"
        judgements = tuple(TokenVerdict(draw(_chances), draw(_chances)) for _ in guesses)
        written = None if own is None else WrittenToken(own, token_texts.text_of(own), 0.5, origin)
        events.append(
            Verdict(
                *("g", number, len(path), judgements, written, 0.25, 0.5, 1.0, "fixed at 4"),
                parents=parents,
                path=path if parents else (),
            )
        )
        committed = [*(guesses[i] for i in path), *([] if own is None else [own])]
        tokens_to_tell.extend((number, index) for index in range(len(committed)))
        tell(*text.push(committed))
        if text.stopped:
            break
    tell(*text.finish())
    events.append(Done("g", "stop", tally(events), cut=text.cut))
    return tuple(events[: draw(st.integers(0, len(events)))] if draw(st.booleans()) else events)


def made_round(number, *texts, accepted=0):
    """A round of this many drafted tokens, before and after its verdict."""
    origin = "bonus" if texts else "plain"
    if accepted < len(texts):
        origin = "correction"
    drafted = tuple(DraftedToken(1, text, 0.5) for text in texts)
    judgements = (TokenVerdict(0.25, 0.5),) * len(texts)
    own = WrittenToken(2, " own", 0.5, origin)
    draft = Draft("g", number, drafted, "model")
    verdict = Verdict("g", number, accepted, judgements, own, 0.01, 0.02, 0.04, "fixed at 4")
    return tuple(joined([draft, verdict]))


def tree_round(number, *tokens, path=()):
    """A round of a tree, of (text, parent, q), as it is drafted, and as it is judged."""
    tree = Tree(tuple(parent for _, parent, _ in tokens))
    drafted = tuple(DraftedToken(1, text, q) for text, _, q in tokens)
    judgements = tuple(TokenVerdict(q / 2, q / 4) for _, _, q in tokens)
    correction = tree.children(path[-1] if path else -1)
    own = WrittenToken(2, " own", 0.5, "correction" if correction else "bonus")
    draft = Draft("g", number, drafted, "head", tree.parents)
    verdict = Verdict(
        *("g", number, len(path), judgements, own, 0.01, 0.02, 0.04, "the best tree"),
        parents=tree.parents,
        path=tuple(path),
    )
    return tuple(joined([draft, verdict]))


def forced_round(number, *texts):
    """A round of tokens that a grammar forced."""
    written = tuple(WrittenToken(3, text, 1.0, "forced") for text in texts)
    verdict = Verdict("g", number, 0, (), None, 0.0, 0.0, 0.01, "the grammar", written)
    return next(iter(joined([verdict])))


def text_of(events):
    return "".join(event.delta for event in events if isinstance(event, Text))


def recorded(name):
    """The trace in the recorded file `name`.

    Made with `python -m engine generate --json` on the tiny model in tests/data.
    """
    return tuple(map(from_json, (DATA / name).read_text(encoding="utf-8").splitlines()))
