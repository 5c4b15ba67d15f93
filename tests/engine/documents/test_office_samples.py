"""Twenty files of office programs, books and pages: what is read of each, exactly."""

from engine.documents.child import read_bytes
from engine.documents.hidden import without_hidden
from tests.support.documents.office_samples import office_samples

SAMPLES = office_samples()


def test_what_is_read():
    for name in SAMPLES:
        sample = SAMPLES[name]
        document = read_bytes(name, sample.data)
        expected = [
            (each.kind, each.number, each.label, without_hidden(each.text)[0])
            for each in sample.read.sections
        ]
        found = [(each.kind, each.number, each.label, each.text) for each in document.sections]
        assert found == expected
        assert document.format == name.rpartition(".")[2]
        assert document.without_text == sample.read.without_text
        assert document.left_out == sample.read.left_out
        assert document.hidden == sample.hidden
