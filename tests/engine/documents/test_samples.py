"""Small files of all kinds that are read here: what is in them, and where."""

from engine.documents.child import read_bytes
from tests.support.documents.samples import SAMPLES


def test_what_a_file_says_stands_where_it_should() -> None:
    for sample in SAMPLES:
        document = read_bytes(sample.name, sample.data)
        assert (document.name, document.format) == (sample.name, sample.format)
        for text, place in sample.said:
            assert place in [each.place for each in document.sections if text in each.text]
