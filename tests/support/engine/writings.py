"""Tiny tokenizers that write the same text differently."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from tokenizers import AddedToken, Tokenizer, decoders, pre_tokenizers, trainers
from tokenizers.models import BPE, Unigram

from engine.drafters.reencoding import Writing
from models.model_folder import ModelFolder
from tests.support.engine.tiny import byte_tokenizer

STORIES = Path(__file__).parents[2] / "data" / "stories260K"  # SentencePiece with byte fallback
_LINES = (
    "The drafter reads what the target has written, and the target reads what it drafts.",
    "Ein Entwurf über größere Flüsse: “schön” – 日本語の文章も、少しだけ。",
    "def reversed_text(text):\n    return text[::-1]  # 12345\n",
    "A rainbow forms when the light of the sun is bent inside drops of water. 🌈🌈",
)


def listed(folder, vocabulary, *, merges=(), special=()):
    """Byte-level, with these tokens; the `special` ones come after them."""
    tokenizer = Tokenizer(BPE(vocab=dict(vocabulary), merges=list(merges)))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(name, normalized=False) for name in special])
    return _written(folder, tokenizer)


@cache
def of_letters():
    """Two with 64 tokens, most of which are letters that both have, by the same numbers; the second
    has a few pairs of letters in place of the last ones."""
    letters = [chr(33 + number) for number in range(64)]
    pairs = [(letters[2 * n], letters[2 * n + 1]) for n in range(8)]
    fewer = letters[:56] + [left + right for left, right in pairs]
    with TemporaryDirectory() as root:
        ours = listed(Path(root) / "ours", {name: n for n, name in enumerate(letters)})
        numbers = {name: n for n, name in enumerate(fewer)}
        return ours, listed(Path(root) / "theirs", numbers, merges=pairs)


def trained(folder):
    """Byte-level, with merges learnt from a few lines and GPT-2's way of splitting words."""
    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=450,
        special_tokens=["<eos>", "<user>", "<bot>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_LINES, trainer)
    return _written(folder, tokenizer)


def unigram(folder, *, prefix):
    """SentencePiece's other kind, with byte fallback; `prefix`: where it puts a space first."""
    words = {"▁": -3.0, "▁the": -2.0, "the": -2.5, "▁a": -2.2, "a": -3.0}
    fallback = [(f"<0x{byte:02X}>", -9.0) for byte in range(256)]
    tokenizer = Tokenizer(
        Unigram([("<unk>", 0.0), *fallback, *words.items()], unk_id=0, byte_fallback=True)
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=prefix)
    metaspace = decoders.Metaspace(prepend_scheme=prefix)
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), metaspace])
    tokenizer.add_special_tokens(["<unk>"])
    return _written(folder, tokenizer)


def single_bytes(folder):
    """A token for each byte."""
    byte_tokenizer(folder)
    return Writing(ModelFolder(folder))


def stories():
    return Writing(ModelFolder(STORIES), begin=[1])


def _written(folder, tokenizer):
    folder.mkdir(parents=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    return Writing(ModelFolder(folder))
