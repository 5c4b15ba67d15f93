"""The names of drafters and draft lengths, and what is said about names that are none."""

import json
import shutil
from pathlib import Path

import mlx.core as mx
import pytest
from mlx_lm.utils import save_model

from engine.conversation.loading import load
from engine.conversation.pair import make_drafter, make_policy
from engine.core.decoder import Decoder
from engine.device import GPU
from engine.draft_length import LONGEST, DraftCandidate
from engine.draft_length.policy import Automatic, Fixed
from engine.draft_length.trees import MOST
from engine.drafters import DrafterRefused, NoDrafter
from engine.drafters.cascade import Cascade
from engine.drafters.copying import LookupDrafter, SuffixDrafter
from engine.drafters.early_exit import EarlyExitDrafter
from engine.drafters.head_network import HeadDrafter, save_head
from engine.drafters.lookahead import LookaheadDrafter
from engine.drafters.model import ModelDrafter, ParallelDrafter
from engine.drafters.other_tokenizer import OtherTokenizerDrafter
from models.errors import Problem
from models.installed.resolve import resolve_drafters
from models.model_folder import ModelFolder
from tests.support.engine import tiny
from tests.support.engine.backends import computing_as
from tests.support.engine.heads import untrained
from tests.support.engine.helpers import task, write
from tests.support.engine.parity.subjects import PROMPT

pytestmark = pytest.mark.usefixtures("on_the_cpu")


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "target"
    tiny.write_folder("llama", folder)
    return load(ModelFolder(folder))


@pytest.fixture
def other(target, tmp_path):
    """A folder with another model of the same tokens."""
    folder = tmp_path / "other model"
    tiny.write_folder("qwen2", folder, seed=1, layers=1)
    return folder


def make(name, target, **options):
    drafters = resolve_drafters(name, target.folder)
    return make_drafter(drafters, target=target, decoder=Decoder(target.model), **options)


NAMES = (
    ("none", NoDrafter, "none"),
    ("lookup", LookupDrafter, "lookup"),
    ("early-exit", EarlyExitDrafter, "early-exit"),
    ("early-exit:1", EarlyExitDrafter, "early-exit"),
    ("early-exit:3", EarlyExitDrafter, "early-exit"),
    ("  lookup\t", LookupDrafter, "lookup"),
    ("lookahead", LookaheadDrafter, "lookahead"),
    ("lookahead:4,2,0", LookaheadDrafter, "lookahead"),
    ("suffix", SuffixDrafter, "suffix"),
    ("lookup+early-exit", Cascade, "lookup+early-exit"),
    (" lookup +  early-exit:2 + none ", Cascade, "lookup+early-exit+none"),
    ("  {folder} ", ModelDrafter, "model"),
    ("lookup+{folder}", Cascade, "lookup+model"),
)


def test_names(target, other):
    made = [(name, make(name.format(folder=other), target)) for name, *_ in NAMES]
    assert [(name, type(drafter), drafter.name) for name, drafter in made] == [*NAMES]


NO_NAMES = (
    "", " ", "+", "lookup+", "+lookup", "lookup++none", "None", "LOOKUP", "early-exit:x",
    "early-exit:-1", "early-exit:1.5", "early_exit", "lookup:3", "recycling", "none:",
    "nonsense", "~no-such-user/model", "a\0b", "x" * 300,
)  # fmt: skip
NO_SIZES = ("5", "5,3", "5,3,5,1", "0,3,5", "5,1,5", "5,3,60", "-5,3,5", "5, 3, 5", "w,n,g", "5,3,")


def test_names_that_are_none(target):
    for name in NO_NAMES:
        with pytest.raises(Problem):
            pytest.fail(f"{name!r} is {resolve_drafters(name, target.folder)}")
    for sizes in NO_SIZES:
        with pytest.raises(Problem) as problem:
            resolve_drafters(f"lookup+lookahead:{sizes}", target.folder)  # nothing is loaded yet
        assert sizes in problem.value.message
    for layers in (0, 4, 99):
        with pytest.raises(DrafterRefused) as refused:
            make(f"lookup+early-exit:{layers}", target)
        assert refused.value.obstacle == "unsupported"


def distilled(target, folder):
    """A head for `target`, as good as if it had been trained."""
    known = target.folder.fingerprint
    save_head(untrained(target.model), folder, target="target", fingerprint=known)
    return folder


def test_a_head_is_found_by_the_weights_of_its_target(target, other, tmp_path, monkeypatch):
    monkeypatch.setenv("SLIPSTREAM_HOME", str(tmp_path / "home"))
    assert make("auto", target).name == "suffix"
    with pytest.raises(Problem) as missing:
        make("head", target)
    assert "slipstream distil --target" in missing.value.remedy
    folder = distilled(target, tmp_path / "home" / "drafters" / "any name")
    for name in ("head", str(folder)):
        assert type(make(name, target)) is HeadDrafter
    assert make("lookup+head", target).name == "lookup+head"
    assert make(" auto ", target).name == "suffix+head"
    stranger = load(ModelFolder(other))
    assert make("auto", stranger).name == "suffix"
    with pytest.raises(DrafterRefused) as refused:
        make(str(folder), stranger)
    assert refused.value.obstacle == "other target"


def test_on_a_mac_a_head_computes_in_its_targets_number_type(tmp_path):
    """Heads are kept as float16, most targets are bfloat16, and both together become float32."""
    tiny.write_folder("llama", tmp_path / "half", dtype=mx.bfloat16)
    with computing_as(GPU):
        half = load(ModelFolder(tmp_path / "half"))
        folder = distilled(half, tmp_path / "head")
        drafters, decoder = resolve_drafters(str(folder), half.folder), Decoder(half.model)
        drafter = make_drafter(drafters, target=half, decoder=decoder)
        run = write(decoder, drafter, Fixed(3), list(PROMPT), task(12))
    assert run.proposed > 0
    (cache,) = drafter._cache
    assert cache.keys.dtype == cache.values.dtype == mx.bfloat16


def exchange(folder, *names):
    """Let the tokens of these names take each other's numbers."""
    path = folder / "tokenizer.json"
    tokenizer = json.loads(path.read_text())
    vocabulary = tokenizer["model"]["vocab"]
    numbers = [vocabulary[name] for name in names]
    vocabulary.update(zip(names, numbers[1:] + numbers[:1], strict=True))
    path.write_text(json.dumps(tokenizer))


def test_a_model_with_other_tokens_drafts_through_text(target, other):
    exchange(other, "Z", "A", "é")
    assert make(f"lookup+{other}", target).name == "lookup+model"
    drafter = make(str(other), target)
    assert type(drafter) is OtherTokenizerDrafter
    decoder, tokens = Decoder(target.model), list(b"ZAZA and so on")
    plain = write(Decoder(target.model), NoDrafter(), Fixed(0), list(tokens), task(20))
    run = write(decoder, drafter, Fixed(3), tokens, task(20))
    assert run.tokens == plain.tokens
    assert run.proposed > 0


def test_tokens_that_a_drafter_must_share(target, other):
    """The first that differs is named, before weights are read: where too few are shared, also
    where nothing says what tokens spell, and where one that drafts in parallel needs all."""

    def refused():
        with pytest.raises(Problem) as refusal:
            make(str(other), target, load=lambda folder, **options: pytest.fail("it was loaded"))
        return refusal.value.message

    config = json.loads((other / "config.json").read_text())
    path = other / "tokenizer.json"
    whole = path.read_text()
    model = json.loads(whole)["model"]
    renamed = {name * 2: number for name, number in model["vocab"].items()}
    for changed in (
        {"model": model | {"vocab": renamed}},
        {"decoder": None, "model": model | {"vocab": renamed | {"A": 65}}},
    ):
        path.write_text(json.dumps(json.loads(whole) | changed))
        assert "token 0 is" in refused()
    path.write_text(whole)
    (other / "config.json").write_text(json.dumps(config | {"pard_token": 259}))
    assert type(make(str(other), target)) is ParallelDrafter
    exchange(other, "Z", "A")
    assert "token 65 is 'A' in target and 'Z' in other model" in refused()


def test_a_model_with_fewer_logits_drafts_only_what_it_knows(target, tmp_path):
    # Rows that pad the output layer: the target has some, the drafter has none.
    folder = Path(shutil.copytree(target.folder.path, tmp_path / "padded"))
    config = json.loads((folder / "config.json").read_text()) | {"vocab_size": 300}
    save_model(folder, tiny.build("llama", vocabulary=300))
    (folder / "config.json").write_text(json.dumps(config))
    padded = load(ModelFolder(folder))
    assert type(make(str(target.folder.path), padded)) is ModelDrafter
    assert type(make(str(folder), target)) is ModelDrafter


WRONG = ["", "-1", "17", "1.5", "auto ", "Auto", "1e1", "²", "nan", "chain:8"]
WRONG += ["tree", "tree:", "tree:0", "tree:65", "tree:-1", "tree: 8", "tree:8:2", "Tree:8"]


def test_draft_lengths():
    any_length, wide = (DraftCandidate("any", 1000, alternatives=n) for n in (1, 8))
    for length in (0, 1, 7, LONGEST):
        choice = make_policy(str(length)).choose([any_length], most=1000, context=0)
        assert choice.length == length
    for tokens in (1, 8, MOST):
        choice = make_policy(f"tree:{tokens}").choose([wide], most=1000, context=0)
        assert len(choice.tree.parents if choice.tree else range(choice.length)) == tokens
    assert isinstance(make_policy("auto"), Automatic)
    for length in WRONG:
        with pytest.raises(Problem) as problem:
            pytest.fail(f"{length!r} is {make_policy(length)}")
        assert repr(length) in problem.value.message
