"""Programs are found where the user's login shell has them."""

from engine.tools.programs import login_path

SHELLS = {
    "greets": ('echo Welcome; export PATH=/their/bin:/bin; eval "$2"; echo Bye', "/their/bin:/bin"),
    "hangs": ("sleep 600", ""),
    "fails": ("exit 3", ""),
}


def test_a_login_shell_is_asked_for_the_path_and_not_waited_for_long(tmp_path):
    found = {}
    for name, (script, _) in SHELLS.items():
        shell = tmp_path / name
        shell.write_text(f"#!/bin/sh\n{script}\n")
        shell.chmod(0o755)
        found[name] = login_path({"SHELL": str(shell)}, seconds=0.3 if name == "hangs" else 60.0)
    assert found == {name: path for name, (_, path) in SHELLS.items()}
    assert not login_path({"SHELL": str(tmp_path / "none")})
