"""Words of a text: in which form they are compared, and where they stand."""

# ruff: noqa: RUF001

from hypothesis import given
from hypothesis import strategies as st

from engine.documents.words import names, words


def forms(text):
    return [word.form for word in words(text)]


def test_texts_that_have_the_same_words():
    for text, same in (
        ("The SELLER’s office", "the seller's office"),
        ("an agree-\n  ment of well-\nknown Jean-Paul", "an agreement of well-known jean-paul"),
        ("un\u00adaffected, co\u00ad\noperate", "unaffected cooperate"),
        ("Ufer\ufffe\nstraße", "uferstrasse"),
        ("across a page-\n\nbreak", "across a pagebreak"),
        ("non\u2011breaking state\u2010of\u2010the\u2010art", "non-breaking state-of-the-art"),
        ("the ﬁrst, cafe\u0301, \uff21\uff14", "the first café a4"),
        ("**bold**, *it*alic, `code`, ~~gone~~", "bold italic code gone"),
        ("**Seller**'s _own_ snake\\_case", "seller's own snake_case"),
        ("one—two – three -- four", "one two three four"),
        ("“quoted” «so» 'too'", "quoted so too"),
        ("10–15 and 2024/03/12", "10-15 and 2024-03-12"),
        ("1. First\n2) Second\n> - Third\n  **4.** Fourth", "First Second Third Fourth"),
        ("## 2. Heading\n\n+ plus\n> said", "Heading plus said"),
        ("see [the notes](https://a.example/b) [3], [^4]", "see the notes"),
        ("| a | b<br>c |\n|---|---|", "a b c"),
        ("```python\nx = 1\n```", "x = 1"),
        ("zero\u200bwidth", "zerowidth"),
        ("हिन्दी में", "हिन्दी में"),
        ("ज़मानत ४५,०००", "जमानत 45,000"),
        ("שְׂכַר הַדִּירָה", "שכר הדירה"),
        ("يَدْفَعُ الإيـــجَارَ ٥٫٥ ٪", "يدفع الإيجار 5.5 %"),
        ("വാടകക്കാരന്\u200d", "വാടകക്കാരൻ"),
        ("می\u200cخواهم", "میخواهم"),
        ("za\u0301 за\u0301мок", "zá замок"),
        ("мʼята ג׳ירפה", "м'ята ג'ירפה"),
        ("１，０００円 １０％", "1,000円 10%"),
        ("រាល់ខែ។", "រាល់ខែ"),
    ):
        assert forms(text) == forms(same)


def test_texts_that_have_not():
    for text, other in (
        ("1,284,000.00", "1,284,000.01"),
        ("10.5", "105"),
        ("10-15", "1015"),
        ("at -5 degrees", "at 5 degrees"),
        ("a < b", "a > b"),
        ("5 %", "5"),
        ("$5", "€5"),
        ("x += 1", "x -= 1"),
        ("agree-\nment", "agree ment"),
        ("in 1998. Then", "in Then"),
        ("काम", "कम"),
        ("₹5", "₩5"),
        ("か", "が"),
    ):
        assert forms(text) != forms(other)


def test_scripts_without_spaces_have_a_word_for_each_character():
    found = words("提供HP-220渡轮 ไป ที่")
    assert [word.form for word in found] == ["提", "供", "hp220", "渡", "轮", "ไ", "ป", "ที่"]
    assert [word.halves for word in found] == [1, 1, 2, 1, 1, 1, 1, 1]


@given(st.text() | st.text(alphabet="aB1-'*_.,\n >[]()`\\\u00ad\u0301渡 किשָــٌ٣", max_size=60))
def test_words_stand_in_order_and_have_something_in_them(text):
    end = 0
    for word in words(text):
        assert end <= word.start < word.end <= len(text)
        assert word.form
        end = word.end


def test_names_are_told_by_capitals_inside_sentences():
    for text, found in (
        ("It was signed by Maria Keller, of Bremen.", ["Maria", "Keller", "Bremen"]),
        ("They left. Then I'm told: The door\nWas open.", []),
        ("said the GDPR and I agreed", ["GDPR"]),
        ("Das Haus ist mit dem Auto und der Bahn von Bremen aus zu erreichen", []),
    ):
        all_words = words(text)
        assert [
            text[all_words[n].start : all_words[n].end] for n in names(text, all_words)
        ] == found
