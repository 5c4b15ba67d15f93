"""Numbers as the cells of a workbook show them."""

from datetime import timedelta

import pytest

from engine.documents.number_formats import elapsed, with_format

ACCOUNTING = '_("$"* #,##0.00_);_("$"* \\(#,##0.00\\);_("$"* "-"??_);_(@_)'


@pytest.mark.parametrize(
    ("value", "number_format", "text"),
    [
        (1234.5, "$#,##0.00", "$1,234.50"),
        (-1234.5, "$#,##0.00", "-$1,234.50"),
        (99.9, '#,##0.00 "€"', "99.90 €"),
        (12, "[$€-407] #,##0.00", "€ 12.00"),
        (1234.5, "#,##0.00 [$kr-41D]", "1,234.50 kr"),
        (37, '0 "kg"', "37 kg"),
        (1234, "00000", "01234"),
        (3_005_551_234, "(000) 000-0000", "(300) 555-1234"),
        (123_456_789, "000-00-0000", "123-45-6789"),
        (-5000, "#,##0;(#,##0)", "(5,000)"),
        (1234.5, ACCOUNTING, "$1,234.50"),
        (-1234.5, ACCOUNTING, "$(1,234.50)"),
        (0, ACCOUNTING, "$-"),
        (1, '"Yes";;"No"', "Yes"),
        (0, '"Yes";;"No"', "No"),
        (7, '[<10]0" low";[>=10]0" high"', "7 low"),
        (17, '[Red][<10]0" low";[>=10]0" high"', "17 high"),
        (2, '"Level "0', "Level 2"),
        (0.125, "0.0%", "12.5%"),
        (-0.25, "0%", "-25%"),
        (12_500_000, '0.0,,"M"', "12.5M"),
        (1_234_567, '#,##0,"k"', "1,234.567k"),
        (0.5, "#.##", "0.5"),
        (5, 'General" days"', "5 days"),
        (12_345_678_901_234_567, "0", "12345678901234567"),
    ],
)
def test_the_text_is_the_cells(value: float, number_format: str, text: str) -> None:
    assert with_format(value, number_format) == text


def test_no_digit_is_lost() -> None:
    for value, number_format, text in (
        (1234.5678, "$#,##0.00", "$1,234.5678"),
        (1 / 3, "0", "0.333333333333333"),
        (0.123456, "0%", "12.3456%"),
        (3, ";;;", "3"),
        (-1, '"Yes";;"No"', "-1"),
        (0.25, "# ?/?", "0.25"),
        (1.5e-05, "0.00E+00", "1.5e-05"),
        (1e300, "0.00", "1e+300"),
        (7, "0" * 1000, "7"),
        (float("nan"), "0.00", "nan"),
        (7, "@", "7"),
    ):
        assert with_format(value, number_format) == text


def test_lengths_of_time() -> None:
    length = timedelta(hours=30, minutes=15)
    for number_format, text in (
        ("[h]:mm", "30:15"),
        ("[h]:mm:ss", "30:15:00"),
        ("[mm]:ss", "1815:00"),
        ("[s]", "108900"),
    ):
        assert elapsed(length, number_format) == text
    assert elapsed(-length, "[h]:mm") == "-30:15"
