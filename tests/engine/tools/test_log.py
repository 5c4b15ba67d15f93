"""How a server's program is found, and its log: of bounded size, with a reason, without keys."""

from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.tools.log import ServerLog
from engine.tools.programs import login_path
from engine.tools.protocol import Server
from engine.tools.reason import reason

KEY = "very-secret-key"
KEPT = Path(__file__).parents[2] / "data" / "complaints.txt"
PEM = "first line of it\nsecond line of it"

SHELLS = {
    "greets": ('echo Welcome; export PATH=/their/bin:/bin; eval "$2"; echo Bye', "/their/bin:/bin"),
    "hangs": ("sleep 600", ""),
    "fails": ("exit 3", ""),
}


def log_in(folder):
    return ServerLog(folder, Server("a/b", "x", env={"KEY": KEY, "PEM": PEM, "PORT": "80"}))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.sampled_from([KEY, PEM, "x", "\n", "y" * 1500, "é"]), max_size=12),
    st.integers(1, 40),
)
def test_no_key_is_written_however_the_pieces_come(tmp_path, texts, length):
    log = log_in(tmp_path)
    log.path.unlink(missing_ok=True)
    data = "".join(texts).encode()
    for start in range(0, len(data), length):
        log.add(data[start : start + length])
    log.close()
    written = log.path.read_text() if log.path.exists() else ""
    for part in (KEY, *PEM.split("\n")):
        assert part not in written
        assert part not in log.reason
        assert part[:-1] not in written


def test_the_last_line_is_the_reason_and_two_files_of_bounded_size_have_plain_names(tmp_path):
    log = log_in(tmp_path / "logs")
    log.add(b"one\ntwo at 80\x1b[31m\nthr")
    assert log.reason == "two at 80"
    log.close()
    assert log.reason == "thr"
    assert log.path.parent == tmp_path / "logs"
    assert log.masked(f"no {KEY}\nhere") == "no ••• here"
    (tmp_path / "file").touch()
    unwritten = ServerLog(tmp_path / "file", Server("a"))
    unwritten.add(b"a line\n")
    unwritten.note("on")
    assert unwritten.reason == "a line"
    for _ in range(100):
        log.add(b"a line\n" * 4000)
    files = sorted(log.path.parent.iterdir())
    assert len(files) == 2
    assert all(each.stat().st_size <= 512 << 10 for each in files)
    assert files[0].stat().st_mode & 0o077 == 0


def test_the_line_of_the_error_is_found_among_what_surrounds_it():
    logs = KEPT.read_text(encoding="utf-8").split("==> ")[1:]
    expected = {log: why for why, _, log in (each.partition("\n") for each in logs)}
    assert len(expected) == 19
    assert {log: reason(log) for log in expected} == expected
    assert not reason("")
    assert not reason("\n\n")


def test_a_login_shell_is_asked_for_the_path_and_not_waited_for_long(tmp_path):
    found = {}
    for name, (script, _) in SHELLS.items():
        shell = tmp_path / name
        shell.write_text(f"#!/bin/sh\n{script}\n")
        shell.chmod(0o755)
        found[name] = login_path({"SHELL": str(shell)}, seconds=0.3 if name == "hangs" else 60.0)
    assert found == {name: path for name, (_, path) in SHELLS.items()}
    assert not login_path({"SHELL": str(tmp_path / "none")})
