"""Logs of programs that ended, as runtimes and launchers wrote them, and the line that says why."""

from textwrap import dedent

from engine.tools.reason import reason

NODE = """\
    node:internal/modules/cjs/loader:1210
      throw err;
      ^

    Error: Cannot find module '/srv/dist/index.js'
        at Module._resolveFilename (node:internal/modules/cjs/loader:1207:15)
        at node:internal/main/run_main_module:28:49 {
      code: 'MODULE_NOT_FOUND',
      requireStack: []
    }

    Node.js v20.20.2
    """
THROWN = """\
    (node:71) [DEP0040] DeprecationWarning: The `punycode` module is deprecated.
    (Use `node --trace-deprecation ...` to show where the warning was created)
    /srv/server.mjs:3
    if (!process.env.API_KEY) throw new Error("API_KEY is not set");
                                    ^

    Error: API_KEY is not set
        at file:///srv/server.mjs:3:33

    Node.js v20.20.2
    """
NPX = """\
    npm error code E404
    npm error 404 Not Found - GET https://packages.example/none - Not found
    npm error 404
    npm error 404  'none@*' is not in this registry.
    npm error 404
    npm error A complete log of this run can be found in: /home/me/.npm/_logs/a-debug-0.log
    """
OLD_NPM = """\
    npm ERR! code EACCES
    npm ERR! syscall mkdir
    npm ERR! path /home/me/.npm/_cacache
    npm ERR! errno -13
    npm ERR! Your cache folder contains root-owned files

    npm ERR! A complete log of this run can be found in:
    npm ERR!     /home/me/.npm/_logs/a-debug-0.log
    """
PYTHON = """\
    Traceback (most recent call last):
      File "/srv/server.py", line 2, in <module>
        import notes_library
    ModuleNotFoundError: No module named 'notes_library'
    Exception ignored in: <function _Base.__del__ at 0x7f>
    Traceback (most recent call last):
    RuntimeError: Event loop is closed
    """
CUSTOM = """\
    Traceback (most recent call last):
      File "/srv/server.py", line 9, in main
        raise Unauthorized("the key has expired")
    notes.Unauthorized: the key has expired
    INFO: bye
    """
GROUP = """\
      + Exception Group Traceback (most recent call last):
      |   File "/srv/server.py", line 20, in <module>
      |     anyio.run(main)
      | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)
      +-+---------------- 1 ----------------
        | Traceback (most recent call last):
        |   File "/srv/server.py", line 12, in main
        | ValueError: the vault is locked
        +------------------------------------
    """
SETTINGS = """\
    Traceback (most recent call last):
      File "/srv/server.py", line 5, in <module>
        Settings()
    pydantic_core._pydantic_core.ValidationError: 1 validation error for Settings
    api_key
      Field required [type=missing, input_value={}, input_type=dict]
        For further information visit https://errors.pydantic.dev/2.11/v/missing
    """
UVX = """\
      × No solution found when resolving tool dependencies:
      ╰─▶ Because none was not found in the package registry and you require none, we
          can conclude that your requirements are unsatisfiable.
    """
DOCKER = """\
    Unable to find image 'none/none:latest' locally
    docker: Error response from daemon: pull access denied for none/none

    Run 'docker run --help' for more information
    """
DENO = """\
    \x1b[0m\x1b[1m\x1b[31merror\x1b[0m: Uncaught (in promise) NotCapable: Requires env access to "KEY"
        at file:///srv/server.ts:1:20
    """
BUN = """\
    error: Cannot find module "notes" from "/srv/server.ts"

    Bun v1.2.4 (macOS arm64)
    """
GO = """\
    panic: runtime error: invalid memory address or nil pointer dereference
    [signal SIGSEGV: segmentation violation code=0x2 addr=0x0 pc=0x1]

    goroutine 1 [running]:
    main.handleError(...)
    \t/srv/main.go:5
    exit status 2
    """
RUST = """\
    thread 'main' panicked at src/main.rs:2:5:
    NOTES_KEY is not set
    note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace
    """
JAVA = """\
    Exception in thread "main" java.lang.IllegalStateException: cannot start
    \tat notes.Server.main(Server.java:7)
    Caused by: java.net.ConnectException: Connection refused
    \tat java.base/sun.nio.ch.Net.connect0(Native Method)
    \t... 3 more
    """
ARGUMENTS = "    usage: notes [-h] --key KEY\n    notes: error: the following are required: --key\n"
FLAGS = "    flag provided but not defined: -x\n    Usage of notes:\n      -port int\n"
LOGGED = "    2026/11/29 10:00:00 INFO start\n    2026/11/29 10:00:01 the token is missing\n"
SHELL = "    env: node: No such file or directory\n"

WHY = (
    (NODE, "Error: Cannot find module '/srv/dist/index.js'"),
    (THROWN, "Error: API_KEY is not set"),
    (NPX, "npm error 404 Not Found - GET https://packages.example/none - Not found"),
    (OLD_NPM, "npm ERR! Your cache folder contains root-owned files"),
    (PYTHON, "ModuleNotFoundError: No module named 'notes_library'"),
    (CUSTOM, "notes.Unauthorized: the key has expired"),
    (GROUP, "ValueError: the vault is locked"),
    (
        SETTINGS,
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for Settings api_key "
        "Field required [type=missing, input_value={}, input_type=dict]",
    ),
    (
        UVX,
        "No solution found when resolving tool dependencies: Because none was not found in the "
        "package registry and you require none, we can conclude that your requirements are "
        "unsatisfiable.",
    ),
    (DOCKER, "docker: Error response from daemon: pull access denied for none/none"),
    (DENO, 'error: Uncaught (in promise) NotCapable: Requires env access to "KEY"'),
    (BUN, 'error: Cannot find module "notes" from "/srv/server.ts"'),
    (GO, "panic: runtime error: invalid memory address or nil pointer dereference"),
    (RUST, "thread 'main' panicked at src/main.rs:2:5: NOTES_KEY is not set"),
    (JAVA, "Caused by: java.net.ConnectException: Connection refused"),
    (ARGUMENTS, "notes: error: the following are required: --key"),
    (FLAGS, "flag provided but not defined: -x"),
    (LOGGED, "2026/11/29 10:00:01 the token is missing"),
    (SHELL, "env: node: No such file or directory"),
    ("", ""),
    ("\n \n", ""),
)


def test_the_line_of_the_error_is_found_among_what_surrounds_it():
    found = {log: reason(dedent(log)) for log, _ in WHY}
    assert found == dict(WHY)
