"""What people read: sizes, times, and texts of others without what steers a screen."""

from hypothesis import given
from hypothesis import strategies as st

from models.in_words import ago, clean, left, one_line, share, short_model, size

SOUND = "a\tb\nc \N{WOMAN}\u200d\N{PERSONAL COMPUTER} \u0645"


def test_sizes_times_and_clean_texts(subtests):
    for words, expected in [
        (size(0), "0 bytes"),
        (size(999_700), "1.00 MB"),
        (size(2_310_000_000), "2.31 GB"),
        (size(12_100_000_000), "12.1 GB"),
        (share(1_200_000_000, 2_310_000_000), "1.20 of 2.31 GB"),
        (share(900_000_000, 2_000_000_000), "900 MB of 2.00 GB"),
        (left(2), "a few seconds left"),
        (left(3 * 60 + 20), "3 min left"),
        (left(2 * 3600 + 61), "2 h 01 min left"),
        (left(float("inf")), "days left"),
        (ago(3), "just now"),
        (ago(800 * 86_400), "2 years ago"),
        (short_model("gpt-oss-20b-MXFP4-Q8"), "GPT OSS 20B"),
        (short_model("Mistral-7B-Instruct-v0.3-4bit"), "Mistral 7B v0.3"),
        (short_model("qwen3_8b_dspark"), "Qwen3 8B DSpark"),
        (clean(SOUND), SOUND),
        (one_line(" a\n\u202eb\t c\x00 "), "a b c"),
    ]:
        with subtests.test(words=words):
            assert words == expected


@given(st.text())
def test_what_is_clean_steers_nothing(text):
    cleaned = clean(text)
    assert not any(c in cleaned for c in "\x00\x08\x0b\r\x1b\x7f\x85\x9b\u200f\u202e\u2066\u2028")
    cleaned.encode()
    assert clean(cleaned) == cleaned
    assert "\n" not in one_line(text)
    assert one_line(one_line(text)) == one_line(text)
