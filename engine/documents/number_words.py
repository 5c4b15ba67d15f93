"""Reads numbers that are written as words: "twenty-three", "siebtes", "capítulo tercero", "十二".

Knows the numbers up to 99 in the languages in which places are named: English, German, Spanish,
French, Italian, Portuguese and Dutch, and the numerals of Chinese, Japanese and Korean.
"""

import re

_PARTS = {  # of words without accents, which are summed up: drei + zehn, vingt + trois, six + teen
    90: "ninet(?:y|ie)|neunzig|negentig|noventa|novanta?",
    80: "eight(?:y|ie)|achtzig|tachtig|ochenta|quatre-vingts?|ottanta?|oitenta",
    70: "sevent(?:y|ie)|siebzig|zeventig|setenta|settanta?",
    60: "sixt(?:y|ie)|sechzig|zestig|sesenta|soixante?|sessanta?|sessenta",
    50: "fift(?:y|ie)|funfzig|vijftig|cincuenta|cinquant[aei]?|cinquenta",
    40: "fort(?:y|ie)|vierzig|veertig|cuarenta|quarant[aei]?|quarenta",
    30: "thirt(?:y|ie)|drei(?:ß|ss)ig|dertig|treinta|trent[aei]?|trinta",
    20: "twent(?:y|ie)|zwanzig|twintig|veint[ei]|vingt|venti?|vinte",
    19: "diciannove?", 18: "diciotto?", 17: "diciassette?", 16: "seize?|sedici?",
    15: "quince|quinze?|quindici?", 14: "[cq]u?atorze?|catorce|quattordici?",
    13: "thirteen|dertien|trece|trei?ze?|tredici?", 12: "twel[fv]e?|zwolf|twaalf|doce|dou?ze?"
    "|dodici?", 11: "eleven|elf|once|onze?|undici?",
    10: r"\bten|teen|tien|zehn|die[zc]i?|dix|deze?s?", 9: "nine?|neun|negen|nueve|neu[fv]|nove",
    8: "eigh(?:t(?!een))?|acht|ocho|huit|otto|oito",
    7: "seven|sieb(?:en)?|zeven|siete|sept|sette|sete",
    6: "six|sechs?|zes|seis?", 5: "five|fif|funf|vijf|cinco|cinq(?:ue?)?",
    4: "four|vier|veer|[cq]uatro|quatre?|quattro", 3: "three|drei|drie|tres|trois|tre",
    2: "two|twee|zwei|dos|deux|due|dois", 1: "one|eins?|uno?|um|een",
}  # fmt: skip
_ORDINALS = {
    12: "duodecim[oa]", 11: "undecim[oa]", 10: "decim[oa]", 9: "noven[oa]|non[oa]",
    8: "octav[oa]|ottav[oa]|oitav[oa]|achte[mnrs]?", 7: "sett?im[oa]|septim[oa]",
    6: "se[xs]t[oa]", 5: "quint[oa]", 4: "[cq]uart[oa]",
    3: "third|dritte[mnrs]?|tercer[oa]?|terz[oa]|terceir[oa]|derde",
    2: "second[aoe]?|segund[oa]", 1: "first|erste[mnrs]?|primer[oa]?|premiere?|prim[oa]|"
    "primeir[oa]|eerste",
}  # fmt: skip
_TENS, _ONES = (
    f"(?:{'|'.join(word for value, word in _PARTS.items() if (value > 19) is tens)})"
    for tens in (True, False)
)
CARDINAL = (
    rf"(?:{_ONES}(?:und|en){_TENS}|{_TENS}(?:(?:-et-|[-\s]|\s(?:y|e|et)\s)?{_ONES}(?:-?{_ONES})?)?"
    rf"|{_ONES}(?:-?{_ONES})?)"
)
ORDINAL = (
    rf"(?:(?:(?:{_TENS}|decim[oa])[-\s]?)?(?:{'|'.join(_ORDINALS.values())})"
    rf"|{CARDINAL}(?:th|s?te[mnrs]?|s?de|ieme|esim[oa]))"
)
IDEOGRAPHS = "[〇零一二三四五六七八九十百两]{1,7}"
_WORDS = re.compile(rf"(?<!\w)(?:{ORDINAL}|{CARDINAL})(?!\w)", re.IGNORECASE)
_PIECE = re.compile(
    "und(?!ec|ic)|"
    + "|".join(
        f"(?P<n{value}_{kind}>{words})"
        for kind, table in enumerate((_ORDINALS, _PARTS))
        for value, words in table.items()
    ),
    re.IGNORECASE,
)
_UNITS = {"十": 10, "百": 100}
_DIGITS = {sign: value for value, sign in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2}  # noqa: RUF001


def in_digits(text: str) -> str:
    """A text without accents with its numbers in digits: "chapters 30, 1" of "thirty, one"."""
    text = _WORDS.sub(lambda words: str(_sum(words[0])), text)
    return re.sub(IDEOGRAPHS, lambda signs: str(_of_ideographs(signs[0])), text)


def _sum(words: str) -> int:
    pieces = _PIECE.finditer(words)
    return sum(int((piece.lastgroup or "n0_").partition("_")[0][1:]) for piece in pieces)


def _of_ideographs(signs: str) -> int:
    """The value of 十二, 一百零三, 二〇."""
    if not any(sign in _UNITS for sign in signs):
        return int("".join(str(_DIGITS[sign]) for sign in signs))
    value, digit = 0, 0
    for sign in signs:
        if sign in _UNITS:
            value, digit = value + max(digit, 1) * _UNITS[sign], 0
        else:
            digit = _DIGITS[sign]
    return value + digit
