"""A tokenizer of bytes and a few longer tokens, so that a text has many spellings."""

import json

from mlx_lm.tokenizer_utils import load
from tokenizers import AddedToken, Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE

from tests.support.engine.tiny import letters_of_bytes

WORDS = (  # each is two that stand before it, or bytes
    *('{"', '":', '": ', ", ", '", ', '"}', "}}", "[1", "],", "], ", "ab", "abc", "bc", "ca", "aa"),
    *("</", "<t", "t>", ">a", ">{", "</t>", "</t>a", "</t>ab", "b</t>ab", ">>", "12", "é", "\n\n"),
    *("na", "me", "name", "tr", "ue", "true"),
)
SPECIAL = ("<eos>", "<eot>", "<call>", "[ARGS]", "<s>")
ADDED = ("<tool>",)  # and not marked as special, as many models have them
END, TURN_END, CALL, ARGS, STRUCK, TOOL = range(256 + len(WORDS), 262 + len(WORDS))
SIZE = TOOL + 1


def wordy_tokenizer(folder):
    """Return the tokenizer as mlx-lm loads it. Its ids: the 256 bytes, `WORDS`, `SPECIAL`,
    `ADDED`."""
    letters = letters_of_bytes()
    names = ["".join(letters[byte] for byte in word.encode()) for word in WORDS]
    vocabulary = {letter: byte for byte, letter in enumerate(letters)}
    vocabulary |= {name: 256 + n for n, name in enumerate(names)}
    merges = [next(pair for pair in halves(name) if {*pair} <= {*vocabulary}) for name in names]
    tokenizer = Tokenizer(BPE(vocab=vocabulary, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(
        [AddedToken(token, special=True, normalized=False) for token in SPECIAL]
    )
    tokenizer.add_tokens([AddedToken(token, special=False, normalized=False) for token in ADDED])
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": SPECIAL[0]}
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return load(folder, eos_token_ids=[END])


def halves(name):
    return [(name[:cut], name[cut:]) for cut in range(len(name) - 1, 0, -1)]


def spelling(token):
    """The bytes of a token; a special one's are its name."""
    if token < 256:
        return bytes([token])
    names = (*WORDS, *SPECIAL, *ADDED)
    return names[token - 256].encode() if token < SIZE else b""
