"""The servers that clients are tried with: our own, mlx-lm's for comparison, or one that runs.

Knows how each is started and when it answers.
"""

import json
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from urllib.request import urlopen

from models.errors import Problem

_OURS = ("-m", "engine", "serve", "--target", "{target}", "--port", "{port}")
# With the matrix library that our own engine has, without which it would be no comparison.
_MLX_LM = "import engine; from mlx_lm.server import main; main()"
KINDS = {
    "slipstream": _OURS,
    "slipstream-plain": (*_OURS, "--drafter", "none"),
    "slipstream-sees": _OURS,
    "mlx-lm": ("-c", _MLX_LM, "--model", "{target}", "--port", "{port}"),
}
_STARTING_SECONDS = 120.0


@contextmanager
def serving(server, target, folder):
    """The address of `server`: one of KINDS, which is started with `target` and ended, or a URL.

    What it prints goes to `folder`. Raises Problem where it does not answer.
    """
    if server not in KINDS:
        yield server.rstrip("/")
        return
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / f"{server}.log"
    if server == "mlx-lm" and sys.platform == "linux":
        target = _with_floats(target, folder / f"{target.name}-float32")
    port = str(_free_port())
    command = [part.format(target=target, port=port) for part in KINDS[server]]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, *command], stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
        try:
            address = f"http://127.0.0.1:{port}"
            _wait(address, process, log)
            yield address
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def model_name(address):
    """The name of the first model that the server lists; what mlx-lm takes for its own, if none.

    Raises Problem where nothing answers.
    """
    try:
        with urlopen(f"{address}/v1/models", timeout=30) as answer:
            listed = answer.read()
    except OSError as error:
        raise Problem(f"Nothing answers at {address}: {error}.", "Start a server.") from error
    try:
        return json.loads(listed)["data"][0]["id"]
    except (ValueError, LookupError):
        return "default_model"


def _with_floats(target, folder):
    """The same model in float32, as our engine computes with on Linux's CPU."""
    if not folder.is_dir():
        paths = ("--model", str(target), "--mlx-path", str(folder))
        command = (sys.executable, "-m", "mlx_lm", "convert", *paths, "-d", "--dtype", "float32")
        subprocess.run(command, check=True, capture_output=True)
    return folder


def _free_port():
    with socket.socket() as tried:
        tried.bind(("127.0.0.1", 0))
        return tried.getsockname()[1]


def _wait(address, process, log):
    until = time.monotonic() + _STARTING_SECONDS
    while process.poll() is None and time.monotonic() < until:
        try:
            with urlopen(f"{address}/health", timeout=30):
                return
        except OSError:
            time.sleep(0.5)
    last = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
    raise Problem(f"The server did not start: {' '.join(last)}", f"See {log}.")
