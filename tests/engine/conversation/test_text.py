"""Decoding in pieces equals decoding at once, stop strings cut where the full text would be cut,
and each token's share of the text is what its bytes say."""

from itertools import chain
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from engine.conversation.text import AnswerText, StopStrings, TextStream, TokenTexts
from engine.replies.reading import ReplyReader
from engine.replies.syntax import syntax_of
from models.errors import Problem
from tests.engine.replies.reading import TOOLS
from tests.support.engine.shares import clipped, shares

SENTENCE = "Grüße, 世界! 👩‍👧 naïve  café"


def byte_level():
    """GPT-2's kind: 256 bytes, some merges (one across half a character), two special tokens."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = [("h", "e"), ("l", "l"), ("Ġ", "w"), ("Ġ", "Ġ"), ("Ã", "©"), ("Ġ", "Ã"), ("ð", "Ł")]
    pieces = alphabet + [left + right for left, right in merges]
    vocabulary = {piece: index for index, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|im_end|>", "<|im_start|>"])
    tokenizer.add_tokens([AddedToken("<tool>", special=False, normalized=False)])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer)


def _sentence_piece(decoder):
    names = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    pieces = [*"▁abcdehlowré\ufffd", "▁a", "▁▁", "he", "▁he", "▁▁▁▁", "a▁b", "世"]
    merges = [("▁", "a"), ("▁", "▁"), ("h", "e"), ("▁", "he"), ("▁▁", "▁▁")]
    vocabulary = {piece: index for index, piece in enumerate([*names, *pieces])}
    tokenizer = Tokenizer(
        models.BPE(vocab=vocabulary, merges=merges, unk_token="<unk>", byte_fallback=True)
    )
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    tokenizer.decoder = decoder
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer)


LLAMA_2 = decoders.Sequence(
    [
        decoders.Replace("▁", " "),
        decoders.ByteFallback(),
        decoders.Fuse(),
        decoders.Strip(" ", 1, 0),
    ]
)
METASPACE = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()])
STORIES = AutoTokenizer.from_pretrained(Path(__file__).parents[2] / "data" / "stories260K")
TOKENIZERS = [byte_level(), _sentence_piece(LLAMA_2), _sentence_piece(METASPACE)]
NAMES = ["byte-level", "llama", "metaspace"]
each_tokenizer = pytest.mark.parametrize("tokenizer", TOKENIZERS, ids=NAMES)
real_too = pytest.mark.parametrize("tokenizer", [*TOKENIZERS, STORIES], ids=[*NAMES, "stories"])


def special_ids(tokenizer):
    added = tokenizer.added_tokens_decoder.items()
    return [token_id for token_id, token in added if token.special]


def whole(tokenizer, ids):
    return str(
        tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False)
    )


def told(text, chunks):
    found = [*(text.push(chunk) for chunk in chunks), text.finish()]
    return [(delta, lengths) for delta, lengths, *_ in found]


def chunks_of(items):
    return st.lists(st.lists(items, max_size=4), max_size=25)


def broken_bytes(tokenizer):
    encoded = tokenizer.encode("é世👩 a  b", add_special_tokens=False)
    alphabet = sorted({*encoded, *special_ids(tokenizer), *range(len(tokenizer) - 25)[-140:]})
    return st.sampled_from(alphabet)


@each_tokenizer
def test_the_cost_is_linear(tokenizer):
    for unit in (
        tokenizer.encode(SENTENCE, add_special_tokens=False),
        [200] if tokenizer is TOKENIZERS[0] else [3 + 0xFF],  # bytes that are no character
        special_ids(tokenizer),
        tokenizer.encode("    ", add_special_tokens=False),
    ):
        costs = []
        for repeats in (10, 60):
            counting, ids = mock.Mock(wraps=tokenizer), unit * repeats
            told(TextStream(counting), [[token_id] for token_id in ids])
            decoded = sum(len(call.args[0]) for call in counting.decode.call_args_list)
            costs.append(decoded / len(ids))
        assert 0 < costs[1] < costs[0] + 10, unit


# The shares of the tokens


@real_too
@given(data=st.data())
def test_pieces_join_and_every_token_is_told_its_share_once(tokenizer, data):
    """Lead and continuation bytes, special tokens, spaces, and ids beyond the vocabulary, as padded
    embeddings have."""
    ids = st.integers(0, len(tokenizer) + 1) | broken_bytes(tokenizer)
    chunks = data.draw(chunks_of(ids))
    tokens = [*chain.from_iterable(chunks)]
    found = told(TextStream(tokenizer), chunks)
    assert "".join(text for text, _ in found) == whole(tokenizer, tokens)
    assert all(sum(lengths) == len(text) for text, lengths in found)
    assert [length for _, lengths in found for length in lengths] == shares(tokenizer, tokens)


@real_too
@given(
    data=st.data(), stops=st.lists(st.text("ab é世👩\ufffd", min_size=1, max_size=3), max_size=2)
)
def test_a_stop_string_takes_from_the_shares_after_it(tokenizer, data, stops):
    encoded = tokenizer.encode("ab é世👩 a  b", add_special_tokens=False)
    chunks = data.draw(chunks_of(broken_bytes(tokenizer) | st.sampled_from(encoded)))
    tokens = [*chain.from_iterable(chunks)]
    answer = AnswerText(tokenizer, stops)
    found = told(answer, chunks)
    everything = whole(tokenizer, tokens)
    place = min((at for stop in stops if (at := everything.find(stop)) >= 0), default=None)
    kept, cut = everything[:place], "" if place is None else everything[place:]
    assert "".join(text for text, _ in found) == kept
    assert (answer.cut, answer.stopped) == (cut, bool(cut))
    assert all(sum(lengths) == len(text) for text, lengths in found)
    assert all(text for text, lengths in found[:-1] if lengths), "only the last may be empty"
    lengths = [length for _, lengths in found for length in lengths]
    assert lengths == clipped(shares(tokenizer, tokens), len(kept))


def test_a_token_waits_for_all_of_its_text():
    tokenizer = byte_level()
    he, tool, bang = tokenizer.convert_tokens_to_ids(["he", "<tool>", "!"])
    answer = AnswerText(tokenizer, ["ool>!!"])
    assert answer.push([he, tool]) == ("he", [2], ())
    assert answer.push([bang]) == ("", [], ())
    assert answer.push([bang, he]) == ("", [], ())
    assert answer.finish() == ("<t", [2, 0, 0, 0], ())
    assert answer.cut == "ool>!!he"
    # A call that comes with a stop string, after it, is none.
    call = '<tool_call>{"name": "get_time", "arguments": {}}</tool_call>'
    answer = AnswerText(tokenizer, ["."], reader=ReplyReader(syntax_of(""), tools=TOOLS))
    answer.push(tokenizer.encode(f"{call}Yes.{call}"))
    answer.finish()
    assert {piece.index for piece in answer.calls()} == {0}


BYTE_LEVEL = {
    "Ġw": " w", "ĠĠ": "  ", "Ã©": "é", "Ã": "\ufffd", "ĠÃ": " \ufffd",
    "<|im_end|>": "<|im_end|>", "<tool>": "<tool>",
}  # fmt: skip
SENTENCE_PIECE = {
    "▁a": " a", "▁": " ", "▁▁": "  ", "he": "he",
    "<0xE4>": "\ufffd", "<0x0A>": "\n", "<0x20>": " ", "<s>": "<s>", "</s>": "</s>",
}  # fmt: skip


@each_tokenizer
def test_spelling(tokenizer):
    token_texts = TokenTexts(tokenizer)
    names = BYTE_LEVEL if tokenizer is TOKENIZERS[0] else SENTENCE_PIECE
    ids = tokenizer.convert_tokens_to_ids([*names])
    assert dict(zip(names, map(token_texts.text_of, ids), strict=True)) == names
    assert token_texts.text_of(len(tokenizer) + 5) == ""


@given(
    text=st.text("abc", max_size=30),
    stops=st.lists(st.text("abc", min_size=1, max_size=5), max_size=4),
)
def test_what_is_held_could_begin_a_stop_string(text, stops):
    cutter = StopStrings(stops)
    shown = ""
    for at, character in enumerate(text):
        final, stopped = cutter.push(character)
        shown += final
        if stopped:
            break
        held = text[len(shown) : at + 1]
        assert not held or any(stop.startswith(held) for stop in stops)


def test_a_stop_string_waits_for_one_that_began_earlier_and_an_empty_one_is_refused():
    cutter = StopStrings(["abcd", "c"])
    assert cutter.push("xabc") == ("x", False)
    assert cutter.finish() == "ab"
    assert (cutter.cut, cutter.stopped) == ("c", True)
    with pytest.raises(Problem):
        StopStrings(["###", ""])
