"""What is cut out of MLX's source, and what is no longer there."""

import pytest

from engine.metal.header import NAMES, HeaderChanged, installed, read


def test_each_function_is_cut_whole():
    text = read().text
    assert text.count("{") == text.count("}")
    assert text.count("\ntemplate <") == len(NAMES)
    for name in NAMES:
        assert text.count(f" {name}(") == 1
    assert "qmv" not in text, "a kernel came along"


def test_a_changed_source_is_noticed(tmp_path):
    source, place = installed().read_text(encoding="utf-8"), tmp_path / "quantized.h"
    digests = set[str]()
    for old, new in [("", ""), ("accum += x_thread[i] * w[i];", "accum += w[i] * x_thread[i];")]:
        place.write_text(source.replace(old, new), encoding="utf-8")
        digests.add(read(place).digest)
    assert len(digests) == 2
    assert read().digest in digests
    gone = source.replace("inline U qdot(", "inline U dot(")
    twice = source + source[source.index("template <int bits, int wsize = 8>") :]
    for other in ("", gone, twice, source[: source.index("inline U qdot_safe(") + 400]):
        place.write_text(other, encoding="utf-8")
        with pytest.raises(HeaderChanged, match="functions named"):
            read(place)
    with pytest.raises(HeaderChanged, match="cannot be read"):
        read(tmp_path / "missing.h")
