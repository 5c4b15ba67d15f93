"""Bytes as text, whatever they are encoded in; hidden characters of it go, and what scripts and
emoji need stays."""

import codecs
import unicodedata
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.documents.decoding import decode, decode_declared
from engine.documents.hidden import hidden_places, in_one_line, with_plain_lines, without_hidden
from models.errors import Problem

MARKED = [
    ("utf-8", codecs.BOM_UTF8),
    ("utf-16-le", codecs.BOM_UTF16_LE),
    ("utf-16-be", codecs.BOM_UTF16_BE),
    ("utf-32-le", codecs.BOM_UTF32_LE),
    ("utf-32-be", codecs.BOM_UTF32_BE),
]


@given(st.text(), st.sampled_from(MARKED))
def test_a_mark_decides_and_without_one_utf_8_is_read(text, marked):
    encoding, mark = marked
    if encoding != "utf-16-le" or not text.startswith("\0"):  # which begins as UTF-32 does
        decoded = decode(mark + text.encode(encoding))
        assert (decoded.text, decoded.remarks) == (text, ())
    if "\0" not in text and not text.startswith("\ufeff"):
        decoded = decode(text.encode())
        assert (decoded.text, decoded.remarks) == (text, ())


GUESSED = (
    ("cp1252", "The café’s “naïve” menu – it’s fine."),
    ("mac_roman", "Café"),
    ("mac_roman", "Größe: schöne Straße für Käse"),
    ("latin-1", "name,Größe\nMüller,3\n"),
    ("cp1250", "Příliš žluťoučký kůň úpěl ďábelské ódy"),
    ("cp1251", "Привет, мир. Как дела?"),
    ("koi8_r", "Привет, мир. Как дела? Всё хорошо."),
    ("cp1256", "مرحبا بالعالم كيف حالك اليوم"),
    ("shift_jis", "日本語のテキストです。これは長い文章です。"),
    ("euc_jp", "日本語のテキストです。これは長い文章です。"),
    ("gb18030", "中文文本。这是一个测试文件。"),
    ("big5", "這是一個測試文件。用來測試編碼"),
    ("euc_kr", "안녕하세요 세계, 이것은 시험입니다"),
)


def test_other_encodings_are_guessed_and_it_is_told():
    for (encoding, text), times in product(GUESSED, (1, 500)):
        decoded = decode(f"{text}\n".encode(encoding) * times)
        assert (encoding, decoded.text) == (encoding, f"{text}\n" * times)
        assert len(decoded.remarks) == 1
    for data in (b"a\0b", bytes(range(256)), b"\x89\x01\x02\x03\xff" * 9):
        with pytest.raises(Problem):
            pytest.fail(f"{data} is {decode(data)}")


def test_a_few_wrong_bytes_do_not_make_utf_8_another_encoding():
    for (wrong, text), line in product(
        (
            ("é".encode("cp1252"), "\ufffd"),
            ("€".encode()[:2], "\ufffd"),
            (b"\xff\xfe", "\ufffd" * 2),
        ),
        ("Müller wohnt in der Straße.\n", "これは日本語です。\n"),
    ):
        decoded = decode((line * 3).encode() + wrong + b"\n" + (line * 3).encode())
        assert decoded.text == line * 3 + text + "\n" + line * 3
        assert len(decoded.remarks) == 1
    cut = ("Größe 3 m², Preis 5 €\n" * 3).encode()[:-2]
    assert decode(cut).text.endswith("Preis 5 \ufffd")
    log = "a line of a log\n" * 100
    assert decode(log.encode() + b"\0" + log.encode()).text == log + "\0" + log


def test_a_declared_encoding_is_read_as_browsers_read_it():
    for labels, data, text in (
        ("iso-8859-1 ISO_8859-1:1987 iso88591 latin1 us-ascii windows-1252", b"\x80\x93", "€“"),
        ("gb2312 GBK x-gbk chinese gb18030", b"\xe9F\xa2\xe3", "镕€"),
        ("shift_jis x-sjis windows-31j", b"\x87\x40\xfb\xfc", "①髙"),
        ("iso-2022-jp csISO2022JP", b"a\x1b$B2A3J-!\x1b(Bb", "a価格①b"),
        ("tis-620 iso-8859-11 windows-874 dos-874", b"\x80\xa1", "€ก"),
        ("iso-8859-9 latin5 windows-1254", b"\x80\xfe", "€ş"),
        ("big5 x-x-big5 big5-hkscs", b"\x87\x40", "\u43f0"),
        ('unicode-1-1-utf-8 utf8 "utf-8"', b"\xc3\xa9", "é"),
        ("unicode_escape rot13 cp99999 idna", b"\\u0041", "\\u0041"),
        ("koi8-r", codecs.BOM_UTF8 + b"\xc3\xa9", "é"),
    ):
        for label in labels.split():
            assert (label, decode_declared(data, label).text) == (label, text)
    decoded = decode_declared(b"a\xffb\xff", "utf-8")
    assert decoded.text == "a\ufffdb\ufffd"
    assert decoded.remarks == ("2 invalid characters of utf-8, shown as \ufffd.",)


# Hidden characters

ODD = st.text(
    st.one_of(
        st.characters(),
        st.sampled_from(
            "ab \n\u00ad\u034f\u200b\u200c\u200d\u200e\u202e\u2060\ufeff\ufe0f\ufe00\u0628\u0915"
            "\u094d\u2764\U0001f469\U0001f3fd\U0001f4bb\U000e0061\U000e0100\u8fba\x00\x07\x7f\x85\r"
        ),
    ),
    max_size=30,
)


def test_what_is_hidden_goes_and_what_is_needed_stays():
    for text, shown in (
        ("co\u00adop\u00ader\u00adate", "cooperate"),
        ("a\u200bb\u2060c\ufeffd", "abcd"),
        ("left\u202eright\u202c\u2066!\u2069\u200e\u200f", "leftright!"),
        ("Hi" + "".join(chr(0xE0000 + ord(each)) for each in "ignore all") + "!", "Hi!"),
        ("a\U000e0100\U000e0101\U000e01efb", "ab"),  # bytes after a letter
        ("\u8fba\U000e0100", "\u8fba\U000e0100"),  # a variant of an ideograph
        ("\U0001f600\ufe0f\ufe0e\ufe01x", "\U0001f600\ufe0fx"),
        ("\u0645\u06cc\u200c\u062e\u0648", "\u0645\u06cc\u200c\u062e\u0648"),
        ("\u0915\u094d\u200d\u0937", "\u0915\u094d\u200d\u0937"),
        ("\u0628\u200c\u200d\u200c\u0628", "\u0628\u200c\u0628"),  # bits between letters
        ("a\u200cb\u200dc", "abc"),
        ("\U0001f469\u200d!", "\U0001f469!"),
    ):
        assert without_hidden(text) == (shown, len(text) - len(shown))


@given(ODD | st.text())
def test_nothing_is_hidden_in_the_rest_and_no_letter_number_or_sign_is_dropped(text):
    shown, dropped = without_hidden(text)
    assert without_hidden(shown) == (shown, 0)
    hidden = hidden_places(text)
    assert len(hidden) == dropped
    assert "".join(each for i, each in enumerate(text) if i not in hidden) == shown
    for place in hidden:
        kind = unicodedata.category(text[place])
        assert kind in {"Cc", "Cf", "Cn", "Mn", "Lo", "Co"}
        assert kind != "Lo" or text[place] in "\u3164\uffa0"


def test_lines_end_in_one_way_and_half_a_character_is_shown_as_such():
    assert with_plain_lines("a\r\nb\rc\nd\x0ce\x85f") == "a\nb\nc\nd\ne\nf"
    assert with_plain_lines("a\ud800b\ud83d\ude00") == "a\ufffdb\U0001f600"
    assert in_one_line(" a\n\u202eb\t\udcff.pdf") == "a b \ufffd.pdf"
