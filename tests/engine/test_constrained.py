"""Answers that a grammar constrains: they obey it, and drafts change nothing about them.

In greedy decoding token for token; when sampling, short texts against exact enumeration of the
target's distribution with what is forbidden left out, position by position.
"""

import json
from collections import Counter
from dataclasses import replace
from itertools import product
from pathlib import Path

import jsonschema
import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.tokenizer_utils import load as load_tokenizer
from tokenizers import AddedToken, Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE

from engine.conversation.loading import load
from engine.conversation.session import Session
from engine.core.decoder import Decoder
from engine.core.grammar import Grammars
from engine.core.loop import speculate
from engine.core.rounds import Task
from engine.core.sampling import distribution, scores
from engine.draft_length.policy import Fixed
from engine.drafters import NoDrafter
from engine.drafters.copying import LookupDrafter
from engine.drafters.model import ModelDrafter
from engine.request import Grammar, Request, Sampling
from models.model_folder import ModelFolder
from tests.support.engine.chi_square import excess
from tests.support.engine.markov import decoder, drafting_tables, random_table
from tests.support.engine.sessions import done_of, text_of, tokens_of
from tests.support.engine.tiny import noisy
from tests.support.mostly_slow import mostly_slow

DATA = Path(__file__).parents[1] / "data"
SCHEMAS = json.loads((DATA / "schemas.json").read_text(encoding="utf-8"))
QUICK = ("person", "recursion: a tree")
# Nothing bounds how many digits or letters these have, and a small model repeats itself.
MAY_NOT_END = {
    "number in a range",
    "number with bounds of fractions",
    "number, exclusive",
    "format time",
    "format date-time",
    "additional numbers",
    "only additional",
    "least and most properties",
    "matrix",
    "classification",
    "geometry",
}
WARM = Sampling(temperature=1.0, seed=1)


# --- Schemas


@pytest.fixture(scope="module")
def stories():
    return load(ModelFolder(DATA / "stories260K"))


@pytest.fixture(scope="module")
def disturbed(stories):
    return noisy(stories.model)


def answer(target, drafter, grammar, sampling):
    session = Session(target)
    session.drafter = drafter
    session.policy = Fixed(0 if isinstance(drafter, NoDrafter) else 4)
    prompt = target.tokenizer.encode("Once upon a time there was", add_special_tokens=False)
    request = Request(sampling=sampling, max_tokens=120, grammar=grammar)
    events = list(session.complete(prompt, request))
    return done_of(events), text_of(events), tokens_of(events)


@pytest.mark.usefixtures("on_the_cpu")
@pytest.mark.parametrize("name", mostly_slow(SCHEMAS, quick=QUICK))
def test_an_answer_obeys_its_schema(name, stories, disturbed):
    schema = SCHEMAS[name]
    grammar = Grammar("json schema", json.dumps(schema))
    kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    validator = kind(schema, format_checker=kind.FORMAT_CHECKER)
    for sampling in (Sampling(), WARM, replace(WARM, repeatable=True)):
        drafters = [LookupDrafter(), ModelDrafter(Decoder(disturbed), vocabulary=512)]
        if sampling == WARM:
            drafters = drafters[1:]

        plain = answer(stories, NoDrafter(), grammar, sampling)
        answers = [plain, *(answer(stories, each, grammar, sampling) for each in drafters)]

        for done, text, tokens in answers:
            assert done.reason == "stop" or name in MAY_NOT_END
            if done.reason == "stop":
                validator.validate(json.loads(text))
            assert tokens == plain[2] or sampling == WARM


@pytest.mark.usefixtures("on_the_cpu")
def test_what_is_after_a_mark_obeys(stories, disturbed):
    grammar = Grammar("regex", "(yes|no)!{1,3}", after=".")
    for sampling in (Sampling(), WARM):
        plain = answer(stories, NoDrafter(), grammar, sampling)
        model = ModelDrafter(Decoder(disturbed), vocabulary=512)
        drafted = answer(stories, model, grammar, sampling)
        for done, text, _ in (plain, drafted):
            assert done.reason == "stop"
            assert text.partition(".")[2] in {
                word + "!" * count for word, count in product(["yes", "no"], [1, 2, 3])
            }
        assert drafted[2] == plain[2] or sampling == WARM
        assert drafted[0].stats.accepted > 0


# --- The distribution

TOKENS = ("a", "b", "c", "ab", "bc", "ca", "<eos>")
END = TOKENS.index("<eos>")
TABLE = random_table(len(TOKENS))
DRAFTING = drafting_tables(TABLE)
PROMPT = [2, 1]
LONGEST = 4
WORDS = Grammar("regex", "(a|bc?)(ca|c|b)?a?(b|c)")
AFTER = Grammar("regex", "(ab|bc|ca)[ab]", after="b")
PENALIZED = Sampling(
    temperature=0.9, repetition_penalty=1.6, frequency_penalty=0.5, penalty_window=3, top_k=3
)


@pytest.fixture(scope="module")
def grammars(tmp_path_factory):
    folder = tmp_path_factory.mktemp("few")
    vocabulary = {token: n for n, token in enumerate(TOKENS[:END])}
    tokenizer = Tokenizer(BPE(vocab=vocabulary, merges=[tuple(t) for t in TOKENS[3:END]]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(TOKENS[END], special=True, normalized=False)])
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": TOKENS[END]}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    loaded = load_tokenizer(folder, eos_token_ids=[END])
    return Grammars(loaded, vocabulary=len(TOKENS), ends=frozenset({END}))


def enumerated(grammars, grammar, sampling):
    """The probability of every text, token by token, each position by itself."""
    found = {}

    def go_on(text, probability):
        if text[-1:] == (END,) or len(text) == LONGEST:
            found[text] = probability
            return
        constraint = grammars.constrain(grammar)
        constraint.commit(list(text))
        seen = [*PROMPT, *text]
        window = ([-1] * sampling.penalty_window + seen)[-sampling.penalty_window :]
        history = mx.array([window]) if sampling.penalizes else None
        scored = scores(TABLE[seen[-2], seen[-1]][None], history, sampling, constraint.masks([]))
        for token, p in enumerate(distribution(scored, sampling)[0].tolist()):
            if p > 0.0:
                go_on((*text, token), probability * p)

    go_on((), 1.0)
    return found


def off_by(grammars, grammar, sampling, drafting, length, texts):
    """How far short texts of the loop are from what is expected: see `chi_square.excess`."""
    expected, target = enumerated(grammars, grammar, sampling), decoder(TABLE)
    drafter = ModelDrafter(decoder(DRAFTING[drafting]), vocabulary=len(TOKENS))
    written = Counter()
    for seed in range(texts):
        task = Task(
            sampling,
            seed=seed,
            max_tokens=LONGEST,
            ends=frozenset({END}),
            constraint=grammars.constrain(grammar),
        )
        target.rewind(0)
        drafter.rewind(0)
        tokens = list(PROMPT)
        for _ in speculate(target, drafter, Fixed(length), tokens, task):
            pass
        written[tuple(tokens[len(PROMPT) :])] += 1
    if written.keys() - expected.keys():
        return float("inf")
    counts = np.array([written[text] for text in expected])
    return excess(counts, np.array(list(expected.values())))


HOT = Sampling(temperature=1.0)


DRAFTED = [("noisy", 4), *product(DRAFTING, [1, 3])]


@pytest.mark.parametrize(
    ("grammar", "sampling", "drafting", "length"),
    mostly_slow(
        [
            (grammar, replace(sampling, repeatable=repeatable), *drafted)
            for (grammar, sampling), repeatable, drafted in product(
                [(WORDS, PENALIZED), (AFTER, HOT)], [False, True], DRAFTED
            )
        ],
        quick=[(AFTER, HOT, "noisy", 4)],
    ),
)
def test_short_texts_have_the_distribution(grammars, grammar, sampling, drafting, length):
    texts = 60 if (sampling, length) == (HOT, 4) else 200
    assert off_by(grammars, grammar, sampling, drafting, length, texts) < 1.0
