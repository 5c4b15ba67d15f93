"""Numbers as the cells of a workbook show them."""

from datetime import timedelta

from engine.documents.number_formats import (
    FIRST_DAY_OF_1904,
    elapsed,
    text_with_format,
    with_format,
)

ACCOUNTING = '_("$"* #,##0.00_);_("$"* \\(#,##0.00\\);_("$"* "-"??_);_(@_)'
LOSS = -1234.1  # which no format makes a profit
DAY = 46_022

AS_SHOWN = (
    (1234.5, "$#,##0.00", "$1,234.50"),
    (-1234.5, "$#,##0.00", "-$1,234.50"),
    (12, "[$€-407] #,##0.00", "€ 12.00"),
    (37, '0 "kg"', "37 kg"),
    (1234, "00000", "01234"),
    (3_005_551_234, "(000) 000-0000", "(300) 555-1234"),
    (-5000, "#,##0;(#,##0)", "(5,000)"),
    (1234.5, ACCOUNTING, "$1,234.50"),
    (-1234.5, ACCOUNTING, "$(1,234.50)"),
    (0, ACCOUNTING, "$-"),
    (0, '"Yes";;"No"', "No"),
    (7, '[<10]0" low";[>=10]0" high"', "7 low"),
    (17, '[Red][<10]0" low";[>=10]0" high"', "17 high"),
    (0.125, "0.0%", "12.5%"),
    (12_500_000, '0.0,,"M"', "12.5M"),
    (1_234_567, '#,##0,"k"', "1,234.567k"),
    (0.5, "#.##", "0.5"),
    (5, 'General" days"', "5 days"),
    (12_345_678_901_234_567, "0", "12345678901234567"),
    # No digit is lost.
    (1234.5678, "$#,##0.00", "$1,234.5678"),
    (1 / 3, "0", "0.333333333333333"),
    (0.123456, "0%", "12.3456%"),
    (0.25, "# ?/?", "0.25"),
    (1.5e-05, "0.00E+00", "1.5e-05"),
    (1e300, "0.00", "1e+300"),
    (7, "0" * 1000, "7"),
    (float("nan"), "0.00", "nan"),
    (5, '[>100]"big"', "5"),
    (7, "@", "7"),
    # A loss is never a profit, in the four choices of Excel's dialog and in others.
    (LOSS, "0.00;[Red]0.00", "-1234.10"),
    (LOSS, "0.00_);(0.00)", "(1234.10)"),
    (LOSS, "$#,##0.00;[Red]$#,##0.00", "-$1,234.10"),
    (LOSS, '0.0" (net)";[Red]0.0" (net)"', "-1234.1 (net)"),
    (LOSS, '0.0" CR";0.0" DR"', "-1234.1 DR"),
    (LOSS, "0.0;▲ 0.0", "▲ 1234.1"),
    (LOSS, "0.0 ;0.0-", "1234.1-"),
    (LOSS, "General;[Red]General", "-1234.1"),
    (LOSS, "0.00E+00;[Red]0.00E+00", "-1234.1"),
    (LOSS, "0%;[Red]0%", "-123410%"),
    (LOSS, "[Red][<0]0.0;0.0", "-1234.1"),
    (LOSS, "[>=0]0.0;(0.0)", "(1234.1)"),
    (LOSS, '[<10]0.0" low";0.0" high"', "-1234.1 low"),
    (LOSS, "[h]:mm;[Red][h]:mm", "-29618:24"),
    (LOSS, "hh:mm", "-29618:24"),
    (50, '[>=1000]0.0,,"M";(0);0', "50"),
    (50, "0;[Red]0", "50"),
    (50, "0;(0);0;@", "50"),
    # Dates are told from numbers.
    (DAY, "mmm-yy;@", "2025-12-31"),
    (DAY, '[$-411]ggge"年"m"月"d"日"', "2025-12-31"),
    (DAY, "aaaa", "Wednesday"),
    (DAY, "aaa", "Wed"),
    (DAY, "[$-411]aaaa;@", "水曜日"),
    (DAY, "[$-ja-JP]aaa", "水"),
    (DAY, "[$-804]aaaa", "星期三"),
    (DAY, "d/m/yyyy(aaa)", "2025-12-31"),
    (DAY + 0.999999, "d/m/yy h:mm", "2026-01-01"),
    (DAY + 0.5, "h:mm AM/PM", "12:00"),
    (83.456 / 86_400, "mm:ss.000", "00:01:23.456"),
    (59, "d/m/yyyy", "1900-02-28"),
    (61, "d/m/yyyy", "1900-03-01"),
    (8, r"0\h", "8h"),  # letters that stand for themselves
    (8, "0 kg", "8 kg"),
    (8, "[Magenta]0", "8"),
    (8, "G/通用格式", "8"),
    (0.5, '# ?/8" in"', "0.5 in"),
    (1.5e9, '0.0E+0" m"', "1500000000 m"),
    # An empty section hides its numbers.
    (3, ";;;", ""),
    (-1, '"Yes";;"No"', ""),
    (0, "0;-0;", ""),
    (3, ";-0;0", ""),
)


def test_the_text_is_the_cells():
    for value, number_format, text in AS_SHOWN:
        assert with_format(value, number_format) == text, number_format
    for value, text in ((44_560, "2025-12-31"), (1, "1904-01-02")):
        assert with_format(value, "d/m/yyyy", first_day=FIRST_DAY_OF_1904) == text


def test_lengths_of_time():
    length = timedelta(hours=30, minutes=15)
    for number_format, text in (
        ("[h]:mm", "30:15"),
        ("[h]:mm:ss", "30:15:00"),
        ("[mm]:ss", "1815:00"),
        ("[s]", "108900"),
    ):
        assert elapsed(length, number_format) == text
    assert elapsed(-length, "[h]:mm") == "-30:15"


def test_texts_have_a_section_too():
    for number_format, text in (
        ('0;-0;0;"Room "@', "Room 7a"),
        ('@" kg"', "7a kg"),
        ("0;-0;0", "7a"),
        ('0;-0;0;"kept"', "kept"),
        (";;;", ""),
    ):
        assert text_with_format("7a", number_format) == text
