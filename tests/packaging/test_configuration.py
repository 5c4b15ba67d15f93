"""What the files say, and what they exclude, which is nothing that is needed."""

from typing import get_args

import pytest

from configuration import PACKAGING, Exclusion, Part, Prune, read_configuration


def test_packages_keep_what_is_needed_and_lose_the_rest():
    """`make app` sees that nothing is missing; this, that what is imported late is there."""
    loses = read_configuration().prune.excluded("packages")
    for name in (
        "PySide6/Qt/plugins/platforms/libqoffscreen.so",
        "google/protobuf/message.py",  # of tokenizers that are SentencePiece's
        "mlx/include/mlx/backend/metal/kernels/quantized.h",
        "mlx_lm/tool_parsers/qwen3_coder.py",
        "pypdfium2-5.15.2.dist-info/licenses/LICENSES/BSD-3-Clause.txt",
        "transformers/models/llama/tokenization_llama.py",
        "transformers/models/whisper/english_normalizer.py",
        "uvicorn/middleware/wsgi.py",
    ):
        assert not loses(name), name
    for name in (
        "PySide6/Qt/lib/QtQuick.framework/Versions/A/QtQuick",
        "PySide6/Qt/plugins/platforms/libqminimal.dylib",
        "filelock-4.2.11.dist-info/sboms/filelock.cdx.json",
        "mlx/include/mlx/mlx.h",
        "numpy/_core/tests/test_api.py",
        "transformers/models/llama/modeling_llama.py",
        "uvicorn/protocols/websockets/wsproto_impl.py",
        "anything/__pycache__/a.cpython-313.pyc",
    ):
        assert loses(name), name


def test_our_own_programs_for_making_things_stay_at_home():
    prune, head = read_configuration().prune, "resources/drafters/smollm2-135m/head.safetensors"
    blas = "resources/blas/x86_64.so"  # which the twin alone has
    loses = {
        ("own",): ("resources/icons/make_icon.py", "engine/bench/results/starter.json"),
        ("own", "own_without_starter"): (head,),
        ("own", "own_for_mac"): (blas,),
    }
    assert not any(map(prune.excluded("own"), (head, blas, "app/__main__.py")))
    assert not prune.excluded("own")("engine/metal/few_rows.metal")
    for parts, names in loses.items():
        assert all(map(prune.excluded(*parts), names)), parts
    assert {one.of for one in prune.exclusions} == set(get_args(Part.__value__))
    for one in prune.exclusions:
        assert one.why.endswith("."), one
    for part in get_args(Part.__value__):
        assert len(prune.lines(part)) == len(set(prune.lines(part)))


def test_a_file_with_a_line_too_many_or_an_exclusion_without_a_reason(tmp_path, subtests):
    path, text = tmp_path / "slipstream.toml", (PACKAGING / "slipstream.toml").read_text()
    because = 'why = "It leads MLX to OpenBLAS, on Linux alone."'
    for old, new, kind, match in [
        ("[budget]", "[budget]\nwishes = 1\n", TypeError, "wishes"),
        ('of = "own_for_mac"', 'of = "own_for_windows"', ValueError, "own_for_windows"),
        (because, 'why = " "', ValueError, "without a reason"),
        ('paths = ["/resources/blas/"]', "paths = []", ValueError, "without a reason or a path"),
    ]:
        with subtests.test(new=new):
            assert old in text
            path.write_text(text.replace(old, new))
            with pytest.raises(kind, match=match):
                read_configuration(path)


def test_the_lines_of_a_part_keep_their_order():
    table = (
        Exclusion("packages", "Because.", ("/a/*", "!/a/b")),
        Exclusion("own", "Because.", ("/c",)),
        Exclusion("packages", "Because.", ("/a/b",)),
    )
    prune = Prune(table)
    assert prune.lines("packages") == ("/a/*", "!/a/b", "/a/b")
    assert prune.lines("own", "packages") == ("/a/*", "!/a/b", "/c", "/a/b")
    assert prune.excluded("packages")("a/b")
