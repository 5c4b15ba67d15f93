"""Shared by tests of conversations: tiny pairs, and the laws of a session's events and caches."""

import functools
from pathlib import Path

from engine.conversation.loading import LoadedModel
from engine.conversation.session import Session
from engine.conversation.stats import tally
from engine.core.decoder import Decoder
from engine.draft_length.policy import Fixed, FixedTree
from engine.drafters import NoDrafter
from engine.drafters.cascade import Cascade
from engine.drafters.copying import LookupDrafter, SuffixDrafter
from engine.drafters.early_exit import EarlyExitDrafter
from engine.drafters.lookahead import LookaheadDrafter
from engine.drafters.model import ModelDrafter
from engine.events import Done, Draft, Prefill, Text, Verdict, from_json, to_json
from engine.request import ChatMessage
from engine.tree import COMMITTED
from models.model_folder import ModelFolder
from tests.support.engine.heads import untrained_drafter
from tests.support.engine.helpers import Known, Scripted, assert_as_fresh, ids_held
from tests.support.engine.tiny import noisy, shallow
from tests.support.engine.trees import Foreseeing

END = 256
VOCABULARY = 260
DRAFTERS = (
    *("none", "model", "early-exit", "head", "lookup", "suffix", "cascade", "lookahead", "trees"),
)
QUESTION = [ChatMessage("user", "How long is a piece of string, and why?")]


def tiny_model(architecture):
    return shallow(architecture, vocabulary=VOCABULARY)


@functools.cache
def noisy_model(architecture, vocabulary):
    return noisy(shallow(architecture, vocabulary=vocabulary))


def loaded(model, tokenizer, *, context=4096):
    return LoadedModel(
        folder=ModelFolder(Path("tiny")),
        model=model,
        tokenizer=tokenizer,
        ends=frozenset({END}),
        context_length=context,
        precision="float32",
    )


def use(session, kind, architecture, *, length=4, **makers):
    """Draft with a drafter of this kind: one of `DRAFTERS`, or of `makers` by name."""
    target, vocabulary = session.decoder, session.decoder.vocabulary

    def model():
        own = Decoder(noisy_model(architecture, vocabulary))
        return ModelDrafter(own, vocabulary=vocabulary)

    drafters = {
        "none": NoDrafter,
        "model": model,
        "early-exit": lambda: EarlyExitDrafter(target, layers=len(target.model.layers) - 1),
        "head": lambda: untrained_drafter(target),
        "lookup": LookupDrafter,
        "lookahead": LookaheadDrafter,
        "trees": lambda: Foreseeing(noisy_model(architecture, vocabulary), vocabulary=vocabulary),
        "suffix": SuffixDrafter,
        "cascade": lambda: Cascade(LookupDrafter(), model()),
    }
    session.drafter = (drafters | makers)[kind]()
    session.policy = FixedTree(3 * length) if kind == "trees" else Fixed(length)
    return session


def new_session(tokenizer, architecture="llama", kind="model"):
    return use(Session(loaded(tiny_model(architecture), tokenizer)), kind, architecture)


def scripted(tokenizer, text, *, prompt, length, wrong=()):
    """A session whose target answers a prompt of so many tokens with `text`, then ends; drafts are
    of this text, and `wrong` at some places."""
    script = [*range(prompt), *text, END, END]
    session = Session(loaded(Scripted(script, vocabulary=VOCABULARY), tokenizer))
    session.drafter = Known(script, vocabulary=VOCABULARY, wrong=wrong)
    session.policy = Fixed(length)
    return session


# The laws of events


def check_laws(events, tokenizer, *, whole=True, end=END):
    """Everything that `engine.events` promises of a generation; `whole` unless it was closed."""
    assert len({event.generation for event in events}) == 1
    assert [from_json(to_json(event)) for event in events] == list(events)
    prefills = [event for event in events if isinstance(event, Prefill)]
    assert list(events[: len(prefills)]) == prefills, "prefill after the first round"
    processed = [prefill.processed for prefill in prefills]
    assert processed == sorted(processed)
    assert all(p.reused <= p.processed <= p.total for p in prefills)

    rounds = []
    committed = []
    numbers = []  # round and index of each
    spans = []
    draft = None
    for event in events:
        match event:
            case Draft():
                assert draft is None, "two drafts in a round"
                assert event.tokens
                assert event.round == len(rounds) + 1
                draft = event
            case Verdict():
                rounds.append(event)
                assert event.round == len(rounds)
                drafted = draft.tokens if draft else ()
                assert len(event.judgements) == len(drafted)
                assert event.parents == (draft.parents if draft else ())
                committed += [drafted[i].id for i in event.accepted_path]
                committed += [token.id for token in event.forced]
                assert not event.forced or (not drafted and event.next is None)
                assert 0 <= event.accepted <= len(drafted)
                if event.next is None and not event.forced:
                    assert committed[-1] == end, "no token of its own, and no end"
                elif event.next is not None:
                    clean = not event.tree.children((COMMITTED, *event.accepted_path)[-1])
                    swept = "bonus" if clean else "correction"
                    assert event.next.origin == (swept if drafted else "plain")
                    committed.append(event.next.id)
                numbers += [(event.round, n) for n in range(len(committed) - len(numbers))]
                draft = None
            case Text():
                assert sum(span.length for span in event.spans) == len(event.delta)
                assert event.spans or event.calls, "text of no token"
                assert sum(each.length for each in event.parts) == len(event.delta)
                assert all(span.length >= 0 for span in event.spans)
                spans += [(span.round, span.index) for span in event.spans]
                assert spans == numbers[: len(spans)], "not in the order of the tokens, or twice"
                assert event.delta or any(event is last for last in events[-2:]), "nothing"
            case _:
                assert draft is None, "something between a draft and its verdict"
    assert end not in committed[:-1], "something after the end"
    if not whole:
        return
    assert draft is None, "a draft without a verdict"
    done = events[-1]
    assert isinstance(done, Done)
    assert sum(isinstance(event, Done) for event in events) == 1
    stats = done.stats
    assert stats == tally(events)
    assert stats.proposed == stats.accepted + stats.rejected + stats.discarded
    own = stats.corrections + stats.bonuses + stats.plain
    assert stats.committed == stats.accepted + own + stats.forced
    assert stats.committed == len(committed)
    assert stats.rounds == sum(not verdict.forced for verdict in rounds)
    assert spans == numbers, "a token without a span"
    decoded = tokenizer.decode(committed, skip_special_tokens=True)
    assert text_of(events) + done.cut == decoded, "the events do not give the text"


def text_of(events):
    return "".join(event.delta for event in events if isinstance(event, Text))


def tokens_of(events):
    """The committed tokens, put together from drafts and verdicts."""
    tokens = []
    drafted = []
    for event in events:
        if isinstance(event, Draft):
            drafted = [token.id for token in event.tokens]
        elif isinstance(event, Verdict):
            tokens += [drafted[i] for i in event.accepted_path]
            tokens += [event.next.id] if event.next else []
            tokens += [token.id for token in event.forced]
            drafted = []
    return tokens


def collect(session, stream):
    """All events, their laws and the session's caches checked."""
    events = list(stream)
    check_laws(events, session.target.tokenizer)
    check_caches(session)
    return events


def check_caches(session):
    """Target and drafter hold the committed tokens and nothing else."""
    model = session.target.model
    if isinstance(model, Scripted):
        assert ids_held(session.decoder) == list(session.tokens[: session.decoder.length])
    else:
        assert_as_fresh(session.decoder, session.tokens, Decoder(model))
    if isinstance(session.drafter, ModelDrafter):
        own = session.drafter._decoder
        assert_as_fresh(own, session.tokens, Decoder(own.model))


def done_of(events):
    assert isinstance(events[-1], Done)
    return events[-1]


def reused_of(events):
    return done_of(events).stats.reused_tokens
