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
from models.drafters.folders import describe_drafter
from models.drafters.kinds import KIND_NAMES, check
from models.errors import Problem
from models.installed.resolve import Drafters, NamedDrafter, resolve_drafters
from models.model_folder import ModelFolder
from tests.support.engine import tiny
from tests.support.engine.backends import computing_as
from tests.support.engine.heads import untrained
from tests.support.engine.helpers import task, write
from tests.support.engine.parity.drafters import DRAFTERS
from tests.support.engine.parity.subjects import PROMPT
from tests.support.mostly_slow import mostly_slow

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
)


def test_names(target):
    made = [(name, make(name, target)) for name, *_ in NAMES]
    assert [(name, type(drafter), drafter.name) for name, drafter in made] == [*NAMES]


def test_a_folder(target, other, monkeypatch):
    for name in (str(other), f"  {other} "):
        drafter = make(name, target)
        assert type(drafter) is ModelDrafter
        assert drafter.name == "model"
    assert make(f"lookup+{other}", target).name == "lookup+model"
    monkeypatch.setenv("HOME", str(other.parent))
    assert type(make("~/other model", target)) is ModelDrafter
    monkeypatch.chdir(other.parent)
    assert type(make("other model", target)) is ModelDrafter
    assert type(make("./other model", target)) is ModelDrafter


NO_NAMES = (
    "", " ", "+", "lookup+", "+lookup", "lookup++none", "None", "LOOKUP", "early-exit:x",
    "early-exit:-1", "early-exit:1.5", "early_exit", "lookup:3", "recycling", "none:",
    "nonsense", "~no-such-user/model", "a\0b", "x" * 300,
)  # fmt: skip
NO_SIZES = ("5", "5,3", "5,3,5,1", "0,3,5", "5,1,5", "5,3,60", "-5,3,5", "5, 3, 5", "w,n,g", "5,3,")


def test_names_that_are_none(target):
    for name in NO_NAMES:
        with pytest.raises(Problem, match="no drafter and no folder") as problem:
            pytest.fail(f"{name!r} is {make(name, target)}")
        assert "none, lookup, suffix, lookahead, head" in problem.value.remedy
    for sizes in NO_SIZES:
        with pytest.raises(Problem, match="Lookahead cannot") as problem:
            resolve_drafters(f"lookup+lookahead:{sizes}", target.folder)  # nothing is loaded yet
        assert sizes in problem.value.message
    for layers in (0, 4, 99):
        with pytest.raises(DrafterRefused, match=f"4 .*{layers}") as refused:
            make(f"lookup+early-exit:{layers}", target)
        assert refused.value.obstacle == "unsupported"


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("SLIPSTREAM_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def distilled(target, folder):
    """A head for `target`, as good as if it had been trained."""
    known = target.folder.fingerprint
    save_head(untrained(target.model), folder, target="target", fingerprint=known)
    return folder


def test_a_head_is_found_by_the_weights_of_its_target(target, other, home):
    distilled(target, home / "drafters" / "any name")
    assert type(make("head", target)) is HeadDrafter
    assert make("lookup+head", target).name == "lookup+head"
    assert make(" auto ", target).name == "suffix+head"
    assert make("auto", load(ModelFolder(other))).name == "suffix"


def test_on_a_mac_a_head_computes_in_its_targets_number_type(home, tmp_path):
    """Heads are kept as float16, most targets are bfloat16, and both together become float32."""
    tiny.write_folder("llama", tmp_path / "half", dtype=mx.bfloat16)
    with computing_as(GPU):
        half = load(ModelFolder(tmp_path / "half"))
        distilled(half, home / "drafters" / "any name")
        drafters, decoder = resolve_drafters("head", half.folder), Decoder(half.model)
        drafter = make_drafter(drafters, target=half, decoder=decoder)
        run = write(decoder, drafter, Fixed(3), list(PROMPT), task(12))
    assert run.proposed > 0
    (cache,) = drafter._cache
    assert cache.keys.dtype == cache.values.dtype == mx.bfloat16


def test_a_target_without_a_head(target, home):
    assert make("auto", target).name == "suffix"
    with pytest.raises(Problem, match="no drafter head for target") as problem:
        make("head", target)
    assert "slipstream distil --target" in problem.value.remedy


def test_a_heads_folder_is_named_like_a_models(target, other, tmp_path):
    folder = distilled(target, tmp_path / "my head")
    assert type(make(str(folder), target)) is HeadDrafter
    with pytest.raises(DrafterRefused) as refused:
        make(str(folder), load(ModelFolder(other)))
    assert refused.value.obstacle == "other target"


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
    for name in (str(other), f"lookup+{other}"):
        assert make(name, target).name == name.replace(str(other), "model")
    drafter = make(str(other), target)
    assert type(drafter) is OtherTokenizerDrafter
    decoder, tokens = Decoder(target.model), list(b"ZAZA and so on")
    plain = write(Decoder(target.model), NoDrafter(), Fixed(0), list(tokens), task(20))
    run = write(decoder, drafter, Fixed(3), tokens, task(20))
    assert run.tokens == plain.tokens
    assert run.proposed > 0


def test_too_few_shared_tokens(target, other):
    """The first that differs is named, before weights are read. So where nothing says what tokens
    spell."""
    path = other / "tokenizer.json"
    tokenizer = json.loads(path.read_text())
    vocabulary = tokenizer["model"]["vocab"]
    renamed = {name * 2: number for name, number in vocabulary.items()}
    for changed in (
        {"model": tokenizer["model"] | {"vocab": renamed}},
        {"decoder": None, "model": tokenizer["model"] | {"vocab": renamed | {"A": 65}}},
    ):
        path.write_text(json.dumps(tokenizer | changed))
        with pytest.raises(Problem, match=r"token 0 is .* in target and .* in other model"):
            make(str(other), target, load=lambda folder, **options: pytest.fail("it was loaded"))


def test_one_that_drafts_in_parallel_needs_the_same_tokens(target, other):
    config = json.loads((other / "config.json").read_text())
    (other / "config.json").write_text(json.dumps(config | {"pard_token": 259}))
    assert type(make(str(other), target)) is ParallelDrafter
    exchange(other, "Z", "A")
    with pytest.raises(Problem, match="token 65 is 'A' in target and 'Z' in other model"):
        make(str(other), target)


def test_a_model_with_fewer_logits_drafts_only_what_it_knows(target, tmp_path):
    # Rows that pad the output layer: the target has some, the drafter has none.
    folder = Path(shutil.copytree(target.folder.path, tmp_path / "padded"))
    config = json.loads((folder / "config.json").read_text()) | {"vocab_size": 300}
    save_model(folder, tiny.build("llama", vocabulary=300))
    (folder / "config.json").write_text(json.dumps(config))
    padded = load(ModelFolder(folder))
    assert type(make(str(target.folder.path), padded)) is ModelDrafter
    assert type(make(str(folder), target)) is ModelDrafter


def lengths(policy):
    return policy.choose([DraftCandidate("any", 1000)], most=1000, context=0).length


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
        with pytest.raises(Problem, match="draft length cannot be") as problem:
            pytest.fail(f"{length!r} is {make_policy(length)}")
        assert repr(length) in problem.value.message


@pytest.mark.parametrize(
    "subject",
    mostly_slow(
        DRAFTERS.values(),
        quick=[DRAFTERS["dflash"]],
    ),
    ids=lambda subject: subject.name,
)
def test_a_folder_of_any_packaging_is_told_fits_and_drafts(subject, target, tmp_path):
    """The tiny drafters that are compared with other programs, as a person would name them."""
    folder = describe_drafter(subject.write(tmp_path / "drafter"))
    assert check(folder.description, subject.target) == ""
    model = subject.target_model()
    decoder = Decoder(model)
    named = Drafters("published", (NamedDrafter("published", folder),))
    drafter = make_drafter(named, target=target, decoder=decoder)
    assert drafter.name == KIND_NAMES[folder.kind]
    run = write(decoder, drafter, Fixed(3), list(PROMPT), task(24))
    plain = write(Decoder(model), NoDrafter(), Fixed(0), list(PROMPT), task(24))
    assert run.tokens == plain.tokens
    assert run.proposed >= 15
