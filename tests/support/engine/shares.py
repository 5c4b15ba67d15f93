"""The number of characters that each token of a text gave, found from the tokens' bytes alone: the
law of `engine.events`, computed in another way than the engine does."""

from itertools import groupby

from tokenizers import pre_tokenizers

_HALF = "\ufffd"
_PRINTED = [*range(33, 127), *range(161, 173), *range(174, 256)]
_BYTES = {chr(byte): byte for byte in _PRINTED} | {  # as GPT-2 writes them
    chr(256 + n): byte for n, byte in enumerate(sorted({*range(256)} - {*_PRINTED}))
}
assert set(_BYTES) == set(pre_tokenizers.ByteLevel.alphabet())


def shares(tokenizer, ids):
    """Return a length for each token; `tokenizer` is byte-level, or SentencePiece with byte
    fallback."""
    silent = {number for number, token in tokenizer.added_tokens_decoder.items() if token.special}
    names = ["" if n in silent else tokenizer.convert_ids_to_tokens(n) or "" for n in ids]
    fallback = "<0x00>" in tokenizer.get_vocab()
    stretches = []
    parts = [(_bytes(name, fallback=fallback), n) for n, name in enumerate(names) if name]
    # With byte fallback the bytes of a run of byte tokens are a character, or all of them are bad.
    for run, group in groupby(parts, lambda part: fallback and names[part[1]].startswith("<0x")):
        stretches.append((run, list(group)))
    found = []  # characters, and to which token each belongs
    for run, group in stretches:
        raw = b"".join(part for part, _ in group)
        owners = [number for part, number in group for _ in part]
        at = 0
        for character, size in _characters(raw, all_bad=run):
            found.append((character, owners[at if character == _HALF else at + size - 1]))
            at += size
    text = "".join(character for character, _ in found)
    decoded = tokenizer.decode(
        list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False
    )
    stripped = len(text) - len(decoded)  # SentencePiece strips the spaces that begin a text
    assert text[stripped:] == decoded
    assert not text[:stripped].strip(" ")
    lengths = [0] * len(ids)
    for _, owner in found[stripped:]:
        lengths[owner] += 1
    return lengths


def clipped(lengths, size):
    """The lengths where only the first `size` characters are left of the text."""
    left, kept = size, list[int]()
    for length in lengths:
        kept.append(min(length, left))
        left -= kept[-1]
    return kept


def _bytes(name, *, fallback):
    """A token's own bytes."""
    if not fallback:
        return bytes(map(_BYTES.get, name)) if set(name) <= set(_BYTES) else name.encode()
    return (
        bytes([int(name[3:5], 16)]) if name.startswith("<0x") else name.replace("▁", " ").encode()
    )


def _characters(raw, *, all_bad):
    """Return the characters that bytes decode to, each with the number of bytes that it stands
    for."""
    while raw:
        try:
            good, bad = raw.decode(), b""
        except UnicodeDecodeError as error:
            if all_bad:
                yield from [(_HALF, 1)] * len(raw)
                return
            good, bad = raw[: error.start].decode(), raw[error.start : error.end]
        yield from ((character, len(character.encode())) for character in good)
        if bad:
            yield _HALF, len(bad)
        raw = raw[len(good.encode()) + len(bad) :]
