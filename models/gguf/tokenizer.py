"""The tokenizer inside a GGUF file, as tokenizer.json and tokenizer_config.json.

Knows the two kinds that Llama and Qwen2 files hold, byte-level BPE and SentencePiece BPE with
byte fallback, and nothing about weights. A GGUF file names its pre-tokenizer instead of
describing it, so each name that is understood is listed here; any other is refused, because a
wrong one gives a model that is quietly worse.
"""

import json
from collections.abc import Mapping
from typing import Any

from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    normalizers,
    pre_tokenizers,
    processors,
)
from tokenizers.models import BPE

from models.errors import Problem
from models.gguf.file import shown

UNKNOWN, CONTROL, USER_DEFINED, UNUSED = 2, 3, 4, 5  # tokenizer.ggml.token_type
_REMEDY = "Get the file from another publisher, or use an MLX version of the model."

# The published regular expressions. Llama 3 takes 3 digits where Qwen2 takes one.
_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
# Words end where small letters are followed by capital ones.
_CASED_WORDS = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+%(ending)s"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*%(ending)s"
    r"|\p{N}%(digits)s| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
SPLIT_BY = {
    "llama-bpe": _WORDS % "{1,3}",
    "dbrx": _WORDS % "{1,3}",
    "qwen2": _WORDS % "",
    "tekken": _CASED_WORDS % {"ending": "", "digits": ""},
    "gpt-4o": _CASED_WORDS % {"ending": "(?i:'s|'t|'re|'ve|'m|'ll|'d)?", "digits": "{1,3}"},
}
_SAME_AS = {
    "llama3": "llama-bpe", "llama-v3": "llama-bpe", "lfm2": "llama-bpe", "pixtral": "llama-bpe",
    "smaug-bpe": "dbrx", "llama4": "gpt-4o", "deepseek-r1-qwen": "qwen2", "starcoder": "smollm",
    "default": "gpt-2",
}  # fmt: skip
# Tokenizers that take a word that is a token as it is, and begin a text with a token.
_WHOLE_WORDS = ("llama-bpe", "tekken")


def tokenizer_files(metadata: Mapping[str, Any]) -> dict[str, str]:
    """File name -> text of the tokenizer files of an MLX model folder.

    Raises Problem if the metadata holds no tokenizer, a broken one, or one of another kind.
    """
    tokens = _strings(metadata, "tokenizer.ggml.tokens")
    if _is_gemma(metadata):  # llama.cpp writes tokens of several spaces so
        tokens = [token if token.strip(" ") else "▁" * len(token) for token in tokens]
    kinds = metadata.get("tokenizer.ggml.token_type", [1] * len(tokens))
    if not isinstance(kinds, list) or len(kinds) != len(tokens):
        raise _broken("its token types do not match its tokens")
    vocabulary = {
        token: index
        for index, (token, kind) in enumerate(zip(tokens, kinds, strict=True))
        if kind != UNUSED  # padding of the embedding, which no text ever maps to
    }
    if len(vocabulary) != len(tokens) - kinds.count(UNUSED):
        raise _broken("a token is listed twice")
    names = _special_names(metadata, tokens)
    try:
        tokenizer, adds_bos = _tokenizer(metadata, vocabulary, tokens, kinds)
        bos = names["bos_token"]
        adds_bos = adds_bos and bos is not None
        if bos is not None and adds_bos:
            tokenizer.post_processor = _bos_first(bos, tokens.index(bos))
    except Problem:
        raise
    except Exception as error:  # the library has no narrower type
        raise _broken(shown(str(error))) from error
    config: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        **names,
        "add_bos_token": adds_bos,
        "clean_up_tokenization_spaces": False,
    }
    template = metadata.get("tokenizer.chat_template")
    if isinstance(template, str):
        config["chat_template"] = template
    return {
        "tokenizer.json": tokenizer.to_str(),
        "tokenizer_config.json": json.dumps(config, indent=2, ensure_ascii=False) + "\n",
    }


def _tokenizer(
    metadata: Mapping[str, Any], vocabulary: dict[str, int], tokens: list[str], kinds: list[int]
) -> tuple[Tokenizer, bool]:
    """The tokenizer, and whether it puts the beginning-of-text token first."""
    model = metadata.get("tokenizer.ggml.model")
    if model == "gpt2":
        tokenizer, adds_bos = _byte_level(metadata, vocabulary)
    elif model == "llama":
        tokenizer, adds_bos = _sentence_piece(metadata, vocabulary, tokens, kinds)
    else:
        raise Problem(f"The GGUF file has a tokenizer of kind {shown(model)}.", _REMEDY)
    for wanted in (CONTROL, UNKNOWN, USER_DEFINED):
        tokenizer.add_tokens(
            [
                AddedToken(token, special=wanted != USER_DEFINED, normalized=False)
                for token, kind in zip(tokens, kinds, strict=True)
                if kind == wanted
            ]
        )
    return tokenizer, metadata.get("tokenizer.ggml.add_bos_token", adds_bos) is True


def _bos_first(bos: str, index: int) -> processors.TemplateProcessing:
    if bos.startswith("$") or ":" in bos:  # these mean something else in a template
        raise _broken(f"its beginning-of-text token is {shown(bos)}")
    return processors.TemplateProcessing(
        single=[bos, "$A"], pair=[bos, "$A", bos, "$B"], special_tokens=[(bos, index)]
    )


def _byte_level(metadata: Mapping[str, Any], vocabulary: dict[str, int]) -> tuple[Tokenizer, bool]:
    """GPT-2's kind; and whether such a tokenizer puts the beginning-of-text token first."""
    architecture = metadata.get("general.architecture")
    name = metadata.get("tokenizer.ggml.pre", "qwen2" if architecture == "qwen2" else "default")
    name = _SAME_AS.get(name, name) if isinstance(name, str) else name
    merges = []
    for merge in _strings(metadata, "tokenizer.ggml.merges"):
        left, _, right = merge.partition(" ")
        merges.append((left, right))
    tokenizer = Tokenizer(BPE(vocabulary, merges, ignore_merges=name in _WHOLE_WORDS))
    first: pre_tokenizers.PreTokenizer
    if name in SPLIT_BY:
        first = pre_tokenizers.Split(Regex(SPLIT_BY[name]), "isolated")
    elif name == "smollm":
        first = pre_tokenizers.Digits(individual_digits=True)
    elif name != "gpt-2":
        raise Problem(
            f"The GGUF file splits text in a way that is unknown: {shown(name)}.", _REMEDY
        )
    to_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=name not in SPLIT_BY)
    if name == "gpt-2":
        tokenizer.pre_tokenizer = to_bytes
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([first, to_bytes])
    if name == "qwen2":
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer, name in _WHOLE_WORDS


def _sentence_piece(
    metadata: Mapping[str, Any], vocabulary: dict[str, int], tokens: list[str], kinds: list[int]
) -> tuple[Tokenizer, bool]:
    """Llama 2's kind. SentencePiece stores scores, not merges: the best score merges first.

    Gemma's merges are in the order of the tokens, not of the scores.
    """
    scores = metadata.get("tokenizer.ggml.scores")
    if not isinstance(scores, list) or len(scores) != len(tokens):
        raise _broken("its scores do not match its tokens")
    if _is_gemma(metadata):
        scores = [-index for index in range(len(tokens))]
    ranked = []
    for token, index in vocabulary.items():
        pairs = [
            (vocabulary[token[:cut]], vocabulary[token[cut:]], token[:cut], token[cut:])
            for cut in range(1, len(token))
            if token[:cut] in vocabulary and token[cut:] in vocabulary
        ]
        ranked += [(-scores[index], (left, right)) for _, _, left, right in sorted(pairs)]
    ranked.sort(key=lambda merge: merge[0])
    unknown = next(
        (token for token, kind in zip(tokens, kinds, strict=True) if kind == UNKNOWN), None
    )
    tokenizer = Tokenizer(
        BPE(
            vocabulary,
            [pair for _, pair in ranked],
            unk_token=unknown,
            fuse_unk=True,
            byte_fallback=True,
        )
    )
    prefix = metadata.get("tokenizer.ggml.add_space_prefix", True) is True
    replace = normalizers.Replace(" ", "▁")
    strip = [decoders.Strip(" ", 1, 0)] if prefix else []
    tokenizer.normalizer = (
        normalizers.Sequence([normalizers.Prepend("▁"), replace]) if prefix else replace
    )
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), *strip]
    )
    return tokenizer, True


def _is_gemma(metadata: Mapping[str, Any]) -> bool:
    sentence_piece = metadata.get("tokenizer.ggml.model") == "llama"
    return sentence_piece and metadata.get("general.architecture") == "gemma3"


def _special_names(metadata: Mapping[str, Any], tokens: list[str]) -> dict[str, str | None]:
    names: dict[str, str | None] = {}
    for ours, theirs in (("bos", "bos"), ("eos", "eos"), ("unk", "unknown"), ("pad", "padding")):
        index = metadata.get(f"tokenizer.ggml.{theirs}_token_id")
        if index is not None and (type(index) is not int or not 0 <= index < len(tokens)):
            raise _broken(f"its {theirs} token is {shown(index)}")
        names[f"{ours}_token"] = None if index is None else tokens[index]
    return names


def _strings(metadata: Mapping[str, Any], key: str) -> list[str]:
    value = metadata.get(key)
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise _broken(f"{key} is missing or not a list of texts")
    return value


def _broken(why: str) -> Problem:
    return Problem(f"The tokenizer in the GGUF file is not usable: {why}.", _REMEDY)
