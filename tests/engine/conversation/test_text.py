"""Decoding in pieces equals decoding at once, stop strings cut where the full text would be cut,
and each token's share of the text is what its bytes say."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from engine.conversation.text import AnswerText, StopStrings, TextStream, TokenTexts
from models.errors import Problem
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


def llama_style():
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


def metaspace_style():
    """The Metaspace decoder, with byte fallback before it."""
    return _sentence_piece(decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()]))


STORIES = AutoTokenizer.from_pretrained(Path(__file__).parents[2] / "data" / "stories260K")
TOKENIZERS = [byte_level(), llama_style(), metaspace_style()]
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


def streamed(tokenizer, chunks):
    return [text for text, _ in told(TextStream(tokenizer), chunks)]


def chunks_of(items):
    return st.lists(st.lists(items, max_size=4), max_size=25)


def _flat(chunks):
    return [token_id for chunk in chunks for token_id in chunk]


def broken_bytes(tokenizer):
    encoded = tokenizer.encode("é世👩 a  b", add_special_tokens=False)
    alphabet = sorted({*encoded, *special_ids(tokenizer), *range(len(tokenizer) - 25)[-140:]})
    return st.sampled_from(alphabet)


@each_tokenizer
@given(data=st.data())
def test_pieces_join_where_bytes_are_broken(tokenizer, data):
    """Lead and continuation bytes, special tokens, spaces, and ids beyond the vocabulary, as padded
    embeddings have."""
    top = len(tokenizer) + 2
    chunks = data.draw(chunks_of(broken_bytes(tokenizer) | st.integers(0, top - 1)))
    assert "".join(streamed(tokenizer, chunks)) == whole(tokenizer, _flat(chunks))


class Counting:
    """Counts the ids that are decoded."""

    def __init__(self, tokenizer):
        self._tokenizer = tokenizer
        self.decoded = 0

    def decode(self, token_ids, *args, **options):
        self.decoded += len(token_ids)
        return self._tokenizer.decode(token_ids, *args, **options)

    def convert_ids_to_tokens(self, token_id):
        return self._tokenizer.convert_ids_to_tokens(token_id)


@each_tokenizer
@pytest.mark.parametrize("kind", ["text", "bad bytes", "special", "spaces"])
def test_the_cost_is_linear(tokenizer, kind):
    unit = {
        "text": tokenizer.encode(SENTENCE, add_special_tokens=False),
        "bad bytes": [200] if tokenizer is TOKENIZERS[0] else [3 + 0xFF],
        "special": special_ids(tokenizer),
        "spaces": tokenizer.encode("    ", add_special_tokens=False),
    }[kind]
    costs = []
    for repeats in (10, 60):
        counting = Counting(tokenizer)
        stream = TextStream(counting)
        ids = unit * repeats
        found = told(stream, [[token_id] for token_id in ids])
        assert "".join(text for text, _ in found) == whole(tokenizer, ids)
        costs.append(counting.decoded / len(ids))
    assert costs[1] < costs[0] + 10


# The shares of the tokens


@real_too
@given(data=st.data())
def test_every_token_is_told_its_share_once(tokenizer, data):
    ids = st.integers(0, len(tokenizer) + 1) | broken_bytes(tokenizer)
    chunks = data.draw(chunks_of(ids))
    found = told(TextStream(tokenizer), chunks)
    assert all(sum(lengths) == len(text) for text, lengths in found)
    assert [length for _, lengths in found for length in lengths] == shares(
        tokenizer, _flat(chunks)
    )


@real_too
@given(
    data=st.data(), stops=st.lists(st.text("ab é世👩\ufffd", min_size=1, max_size=3), max_size=2)
)
def test_a_stop_string_takes_from_the_shares_behind_it(tokenizer, data, stops):
    encoded = tokenizer.encode("ab é世👩 a  b", add_special_tokens=False)
    chunks = data.draw(chunks_of(broken_bytes(tokenizer) | st.sampled_from(encoded)))
    answer = AnswerText(tokenizer, stops)
    found = told(answer, chunks)
    everything = whole(tokenizer, _flat(chunks))
    kept, cut = naive(everything, stops)
    assert "".join(text for text, _ in found) == kept
    assert (answer.cut, answer.stopped) == (cut, bool(cut))
    assert all(sum(lengths) == len(text) for text, lengths in found)
    assert all(text for text, lengths in found[:-1] if lengths), "only the last may be empty"
    assert [length for _, lengths in found for length in lengths] == clipped(
        shares(tokenizer, _flat(chunks)), len(kept)
    )


SHARES = (  # of a tokenizer, tokens, and the lengths that are told with each and at the end
    # A character belongs to the token that completes it; SentencePiece's come when the run ends.
    (0, ["he", "ĠÃ", "©", "ll"], [[2], [], [1, 1], [2], []]),
    (1, ["he", "<0xE4>", "<0xB8>", "<0x96>", "a"], [[2], [], [], [], [0, 0, 1, 1], []]),
    # Bytes that are no character belong to the token that began them.
    (0, ["ð", "Ł", "he", "ÿ"], [[], [], [1, 0, 2], [], [1]]),
    (1, ["<0xE4>", "<0xB8>", "a"], [[], [], [1, 1, 1], []]),
    # A token without text has an empty share; the first space is stripped.
    (0, ["<|im_end|>", "he", "<|im_start|>"], [[0], [2], [0], []]),
    (1, ["▁", "he"], [[0], [2], []]),
)


def test_the_shares_of_some_tokens():
    for number, names, expected in SHARES:
        ids = TOKENIZERS[number].convert_tokens_to_ids(names)
        found = told(TextStream(TOKENIZERS[number]), [[one] for one in ids])
        assert [lengths for _, lengths in found] == expected, names


def test_a_token_waits_for_all_of_its_text():
    tokenizer = byte_level()
    he, tool, bang = tokenizer.convert_tokens_to_ids(["he", "<tool>", "!"])
    answer = AnswerText(tokenizer, ["ool>!!"])
    assert answer.push([he, tool]) == ("he", [2], ())
    assert answer.push([bang]) == ("", [], ())
    assert answer.push([bang, he]) == ("", [], ())
    assert answer.finish() == ("<t", [2, 0, 0, 0], ())
    assert answer.cut == "ool>!!he"


@each_tokenizer
def test_spelling(tokenizer):
    token_texts = TokenTexts(tokenizer)

    def text_of(name):
        return token_texts.text_of(tokenizer.convert_tokens_to_ids(name))

    if tokenizer is TOKENIZERS[0]:
        assert (text_of("Ġw"), text_of("ĠĠ"), text_of("Ã©")) == (" w", "  ", "é")
        assert (text_of("Ã"), text_of("ĠÃ")) == ("\ufffd", " \ufffd")
        assert (text_of("<|im_end|>"), text_of("<tool>")) == ("<|im_end|>", "<tool>")
    else:
        assert (text_of("▁a"), text_of("▁"), text_of("▁▁"), text_of("he")) == (
            " a",
            " ",
            "  ",
            "he",
        )
        assert (text_of("<0xE4>"), text_of("<0x0A>"), text_of("<0x20>")) == ("\ufffd", "\n", " ")
        assert (text_of("<s>"), text_of("</s>")) == ("<s>", "</s>")
    assert token_texts.text_of(len(tokenizer) + 5) == ""


def naive(text, stops):
    """What StopStrings should make of the full text: kept, cut."""
    places = [place for stop in stops if (place := text.find(stop)) >= 0]
    place = min(places, default=len(text))
    return text[:place], text[place:]


stop_lists = st.lists(st.text("abc", min_size=1, max_size=5), max_size=4)


@given(text=st.text("abc", max_size=30), stops=stop_lists)
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


def test_a_stop_string_waits_for_one_that_began_earlier():
    cutter = StopStrings(["abcd", "c"])
    assert cutter.push("xabc") == ("x", False)
    assert cutter.finish() == "ab"
    assert (cutter.cut, cutter.stopped) == ("c", True)


def test_an_empty_stop_string_is_refused():
    with pytest.raises(Problem, match="empty"):
        StopStrings(["###", ""])
