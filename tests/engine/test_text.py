"""Decoding in pieces equals decoding at once; stop strings cut where the full text would be cut."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from engine.text import Spelling, StopStrings, TextStream
from models.errors import Problem

SENTENCE = "Grüße, 世界! 👩‍👧 naïve  café"


def byte_level() -> PreTrainedTokenizerFast:
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


def _sentence_piece(decoder: Any) -> PreTrainedTokenizerFast:
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


def llama_style() -> PreTrainedTokenizerFast:
    """Llama 2's decoder."""
    return _sentence_piece(
        decoders.Sequence(
            [
                decoders.Replace("▁", " "),
                decoders.ByteFallback(),
                decoders.Fuse(),
                decoders.Strip(" ", 1, 0),
            ]
        )
    )


def metaspace_style() -> PreTrainedTokenizerFast:
    """The Metaspace decoder, with byte fallback before it."""
    return _sentence_piece(decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()]))


TOKENIZERS = [byte_level(), llama_style(), metaspace_style()]
NAMES = ["byte-level", "llama", "metaspace"]
each_tokenizer = pytest.mark.parametrize("tokenizer", TOKENIZERS, ids=NAMES)


def special_ids(tokenizer: PreTrainedTokenizerFast) -> list[int]:
    added = tokenizer.added_tokens_decoder.items()
    return [token_id for token_id, token in added if token.special]


def whole(tokenizer: PreTrainedTokenizerFast, ids: Sequence[int]) -> str:
    return str(
        tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False)
    )


def streamed(tokenizer: PreTrainedTokenizerFast, chunks: Sequence[Sequence[int]]) -> list[str]:
    stream = TextStream(tokenizer)
    return [*(stream.push(chunk) for chunk in chunks), stream.finish()]


def chunks_of(items: st.SearchStrategy[Any]) -> st.SearchStrategy[list[list[Any]]]:
    return st.lists(st.lists(items, max_size=4), max_size=25)


def _flat(chunks: Sequence[Sequence[int]]) -> list[int]:
    return [token_id for chunk in chunks for token_id in chunk]


@each_tokenizer
@given(data=st.data())
def test_pieces_join_to_the_whole(tokenizer: PreTrainedTokenizerFast, data: st.DataObject) -> None:
    top = len(tokenizer) + 2  # two ids beyond the vocabulary, as padded embeddings have
    chunks = data.draw(chunks_of(st.integers(0, top - 1)))
    assert "".join(streamed(tokenizer, chunks)) == whole(tokenizer, _flat(chunks))


@each_tokenizer
@given(data=st.data())
def test_pieces_join_where_bytes_are_broken(
    tokenizer: PreTrainedTokenizerFast, data: st.DataObject
) -> None:
    """Lead and continuation bytes, special tokens, spaces: everything that interacts."""
    encoded = tokenizer.encode("é世👩 a  b", add_special_tokens=False)
    alphabet = sorted({*encoded, *special_ids(tokenizer), *range(len(tokenizer) - 25)[-140:]})
    chunks = data.draw(chunks_of(st.sampled_from(alphabet)))
    assert "".join(streamed(tokenizer, chunks)) == whole(tokenizer, _flat(chunks))


@each_tokenizer
@given(text=st.text(), size=st.integers(1, 5))
def test_valid_text_never_shows_half_a_character(
    tokenizer: PreTrainedTokenizerFast, text: str, size: int
) -> None:
    text = text.replace("\ufffd", "")
    ids = tokenizer.encode(text, add_special_tokens=False)
    pieces = streamed(tokenizer, [ids[at : at + size] for at in range(0, len(ids), size)])
    assert "".join(pieces) == whole(tokenizer, ids)
    if "\ufffd" not in whole(tokenizer, ids):
        assert not any("\ufffd" in piece for piece in pieces)


def test_text_comes_at_once_where_nothing_can_change_it() -> None:
    tokenizer = byte_level()
    ids = tokenizer.encode("he é", add_special_tokens=False)
    assert streamed(tokenizer, [[token_id] for token_id in ids]) == ["he", " ", "é", ""]


def test_an_invalid_byte_comes_out_when_valid_text_follows_and_at_the_end() -> None:
    tokenizer = byte_level()
    bad = tokenizer.convert_tokens_to_ids("ÿ")  # the byte 0xFF
    he = tokenizer.convert_tokens_to_ids("he")
    assert streamed(tokenizer, [[bad], [he], [bad]]) == ["", "\ufffdhe", "", "\ufffd"]


@each_tokenizer
def test_special_tokens_give_no_text_and_do_not_split_a_character(
    tokenizer: PreTrainedTokenizerFast,
) -> None:
    ids = tokenizer.encode("世é", add_special_tokens=False)
    chunks = [part for token_id in ids for part in ([token_id], special_ids(tokenizer))]
    assert "".join(streamed(tokenizer, chunks)) == whole(tokenizer, ids)


class Counting:
    """Counts the ids that are decoded."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast) -> None:
        self._tokenizer = tokenizer
        self.decoded = 0

    def decode(self, token_ids: Any, *args: Any, **options: Any) -> Any:
        self.decoded += len(token_ids)
        return self._tokenizer.decode(token_ids, *args, **options)

    def convert_ids_to_tokens(self, token_id: int) -> Any:
        return self._tokenizer.convert_ids_to_tokens(token_id)


@each_tokenizer
@pytest.mark.parametrize("kind", ["text", "bad bytes", "special", "spaces"])
def test_the_cost_is_linear(tokenizer: PreTrainedTokenizerFast, kind: str) -> None:
    unit = {
        "text": tokenizer.encode(SENTENCE, add_special_tokens=False),
        "bad bytes": [200] if tokenizer is TOKENIZERS[0] else [3 + 0xFF],
        "special": special_ids(tokenizer),
        "spaces": tokenizer.encode("    ", add_special_tokens=False),
    }[kind]
    costs = []
    for repeats in (20, 200):
        counting = Counting(tokenizer)
        stream = TextStream(counting)
        ids = unit * repeats
        text = "".join(stream.push([token_id]) for token_id in ids) + stream.finish()
        assert text == whole(tokenizer, ids)
        costs.append(counting.decoded / len(ids))
    assert costs[1] < costs[0] + 10


@each_tokenizer
def test_spelling(tokenizer: PreTrainedTokenizerFast) -> None:
    spelling = Spelling(tokenizer)

    def spell(name: str) -> str:
        return spelling.spell(tokenizer.convert_tokens_to_ids(name))

    if tokenizer is TOKENIZERS[0]:
        assert (spell("Ġw"), spell("ĠĠ"), spell("Ã©")) == (" w", "  ", "é")
        assert (spell("Ã"), spell("ĠÃ")) == ("\ufffd", " \ufffd")
        assert (spell("<|im_end|>"), spell("<tool>")) == ("<|im_end|>", "<tool>")
    else:
        assert (spell("▁a"), spell("▁"), spell("▁▁"), spell("he")) == (" a", " ", "  ", "he")
        assert (spell("<0xE4>"), spell("<0x0A>"), spell("<0x20>")) == ("\ufffd", "\n", " ")
        assert (spell("<s>"), spell("</s>")) == ("<s>", "</s>")
    assert spelling.spell(len(tokenizer) + 5) == ""


def test_spelling_asks_the_tokenizer_once() -> None:
    counting = Counting(TOKENIZERS[0])
    spelling = Spelling(counting)
    first, cost = spelling.spell(50), counting.decoded
    assert (spelling.spell(50), counting.decoded) == (first, cost)


def naive(text: str, stops: Sequence[str]) -> tuple[str, str]:
    """What StopStrings should make of the full text: kept, cut."""
    places = [place for stop in stops if (place := text.find(stop)) >= 0]
    place = min(places, default=len(text))
    return text[:place], text[place:]


letters = st.text("ab", max_size=4)
stop_lists = st.lists(st.text("abc", min_size=1, max_size=5), max_size=4)


@given(chunks=st.lists(letters | st.text("abc", max_size=3), max_size=12), stops=stop_lists)
def test_stop_strings_cut_where_the_full_text_would_be_cut(
    chunks: list[str], stops: list[str]
) -> None:
    cutter = StopStrings(stops)
    results = [cutter.push(chunk) for chunk in chunks]
    kept = "".join(final for final, _ in results) + cutter.finish()
    expected = naive("".join(chunks), stops)
    assert (kept, cutter.cut) == expected
    assert cutter.stopped == bool(expected[1])


@given(text=st.text("abc", max_size=30), stops=stop_lists)
def test_what_is_held_could_begin_a_stop_string(text: str, stops: list[str]) -> None:
    cutter = StopStrings(stops)
    shown = ""
    for at, character in enumerate(text):
        final, stopped = cutter.push(character)
        shown += final
        if stopped:
            break
        held = text[len(shown) : at + 1]
        assert not held or any(stop.startswith(held) for stop in stops)


def test_a_stop_string_is_found_across_pushes() -> None:
    cutter = StopStrings(["</answer>", "###"])
    assert cutter.push("42 <") == ("42 ", False)
    assert cutter.push("b> </ans") == ("<b> ", False)
    assert cutter.push("wer>\n") == ("", True)
    assert cutter.push("more") == ("", True)
    assert (cutter.cut, cutter.finish(), cutter.stopped) == ("</answer>\nmore", "", True)


def test_a_stop_string_waits_for_one_that_began_earlier() -> None:
    cutter = StopStrings(["abcd", "c"])
    assert cutter.push("xabc") == ("x", False)
    assert cutter.finish() == "ab"
    assert (cutter.cut, cutter.stopped) == ("c", True)


def test_what_is_held_is_released_at_the_end() -> None:
    cutter = StopStrings(["###"])
    assert cutter.push("a ##") == ("a ", False)
    assert (cutter.finish(), cutter.cut, cutter.stopped) == ("##", "", False)


def test_no_stop_strings_hold_nothing() -> None:
    assert StopStrings([]).push("text") == ("text", False)


def test_an_empty_stop_string_is_refused() -> None:
    with pytest.raises(Problem, match="empty"):
        StopStrings(["###", ""])
