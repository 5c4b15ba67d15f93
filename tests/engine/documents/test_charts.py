"""Charts of office files, as the tables that they draw."""

from xml.etree.ElementTree import fromstring

from engine.documents.charts import chart_text
from tests.support.documents.office import chart


def test_numbers_look_as_they_are_shown():
    for number_format, text in (
        ("General", "46082.5"),
        ("[$-409]d-mmm-yy", "2026-03-01"),
        (";;;", "46082.5"),
    ):
        drawn = chart("", ["a"], {"": (46_082.5,)}).replace(
            "0%", number_format.replace('"', "&quot;")
        )
        assert chart_text(fromstring(drawn)) == f"Chart\na | {text}"


def test_a_chart_without_numbers_says_nothing():
    assert chart_text(fromstring(chart("Turnover", ["2024"], {}))) == ""
    odd = chart("", ["a"], {"b": (1,)}).replace('idx="0"', 'idx="x"')
    assert chart_text(fromstring(odd)) == ""


def test_the_days_of_a_workbook_since_1904():
    drawn = chart("", ["a"], {"": (44_560,)}).replace("0%", "d/m/yy")
    drawn = drawn.replace("<c:chart>", '<c:date1904 val="1"/><c:chart>')
    assert chart_text(fromstring(drawn)) == "Chart\na | 2025-12-31"
