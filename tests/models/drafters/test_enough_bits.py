"""4 bits are enough where a trial has shown nearly the acceptance of 8."""

from types import SimpleNamespace

from models.drafters.enough_bits import found_bits, keep_rates

T, D, OTHER, THIRD = (SimpleNamespace(fingerprint=name) for name in "tdox")


def test_four_bits_need_99_of_100_accepted_tokens(tmp_path):
    assert found_bits(T, D, home=tmp_path) == 8
    for few, bits in ((0.6, 4), (0.594, 4), (0.59, 8), (0.61, 4), (0.0, 8)):
        keep_rates(T, D, (few, 0.6), home=tmp_path)
        assert found_bits(T, D, home=tmp_path) == bits, few
    keep_rates(T, OTHER, (0.6, 0.6), home=tmp_path)
    found = [found_bits(T, each, home=tmp_path) for each in (D, OTHER, THIRD)]
    assert found == [8, 4, 8]
    assert found_bits(THIRD, OTHER, home=tmp_path) == 8


def test_a_file_that_cannot_be_read_or_written_leaves_the_usual_bits(tmp_path):
    file = tmp_path / "drafter-bits.json"
    for content in ("", "[1]", '{"t d": 4}', '{"t d": ["x", 1]}', '{"t d": [0.5]}'):
        file.write_text(content)
        assert found_bits(T, D, home=tmp_path) == 8
    file.unlink()
    (tmp_path / "file").write_text("")
    keep_rates(T, D, (0.6, 0.6), home=tmp_path / "file")  # no folder can be made there
    assert found_bits(T, D, home=tmp_path / "file") == 8
