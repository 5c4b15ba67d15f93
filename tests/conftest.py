"""For every test: no display, and a failure where threads or child processes are left behind."""

import gc
import json
import os
import signal
import tempfile
import threading
import time
import tomllib
from collections import Counter
from itertools import chain
from pathlib import Path

os.environ["QT_QPA_PLATFORM"] = "offscreen"
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # the others have the other cores

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # started by a shell with `&`
    signal.signal(signal.SIGINT, signal.default_int_handler)  # or children would ignore it, too

import hypothesis
import psutil
import pytest

from engine import device  # before any test imports MLX: the engine puts OpenBLAS in front
from tests.support.mostly_slow import ALL_EXAMPLES, QUICK_EXAMPLES

hypothesis.settings.register_profile(  # the same examples each time: chance decides no change
    "quick", deadline=None, max_examples=QUICK_EXAMPLES, derandomize=True
)
hypothesis.settings.register_profile("all", deadline=None, max_examples=ALL_EXAMPLES)
hypothesis.settings.load_profile("quick")  # `make test-all` chooses the other

ROOT = Path(__file__).parents[1]
MOST_SECONDS = 1.5  # of an item that tests/durations.toml does not name
GRACE_SECONDS = 30.0  # for a leak only: what ends by itself does so in a moment
MEMORY = "/dev/shm"  # Linux's disk in memory: what is written there need not be waited for
ROOM_BYTES = 4 << 30  # far more than the quick tests keep until they end


def _takes_all(folder):
    """Containers may have a small one, or one from which no program can be run; a Mac has none."""
    if not os.access(folder, os.W_OK):
        return False
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize > ROOM_BYTES and not disk.f_flag & os.ST_NOEXEC


if "TMPDIR" not in os.environ and _takes_all(MEMORY):
    tempfile.tempdir = MEMORY  # not TMPDIR: the kernels that MLX compiles stay where they are

# tqdm's refresher of stalled progress bars lives until the process ends.
LIBRARY_THREADS = {"tqdm_monitor"}


def _threads():
    return {thread for thread in threading.enumerate() if thread.name not in LIBRARY_THREADS}


def _children():
    if not _may_have_children():
        return set()
    children = psutil.Process().children(recursive=True)
    return {child for child in children if not _is_resource_tracker(child)}


def _may_have_children():
    """Linux says no in a moment; going through all processes takes a while."""
    try:
        return any(
            Path(f"/proc/self/task/{thread}/children").read_bytes()
            for thread in os.listdir("/proc/self/task")
        )
    except OSError:  # a thread has ended meanwhile, or it is no Linux
        return True


def _is_resource_tracker(process):
    # multiprocessing starts one on the first lock (tqdm makes one) and keeps it to the end.
    try:
        return any("multiprocessing.resource_tracker" in word for word in process.cmdline())
    except psutil.Error:
        return False


def pytest_addoption(parser):
    parser.addoption(
        "--as-on-a-mac",
        action="store_true",
        help="run on the CPU the code that a Mac's GPU runs: engine.device.GPU",
    )


def pytest_configure(config):
    if config.getoption("--as-on-a-mac"):
        device.BACKENDS.update(dict.fromkeys(device.BACKENDS, device.GPU))


@pytest.hookimpl(tryfirst=True)  # before those that are slow are left out
def pytest_collection_modifyitems(items):
    """`quick(n)`: all but the first n cases of a test are slow. `cpu`: left out elsewhere."""
    cases = Counter[str]()
    elsewhere = pytest.mark.skip(reason="says what MLX's CPU backend alone does")
    for item in items:
        if item.get_closest_marker("cpu") and device.backend() is not device.CPU:
            item.add_marker(elsewhere)
        mark = item.get_closest_marker("quick")
        if mark is not None and item.get_closest_marker("slow") is None:
            test = item.nodeid.partition("[")[0]
            cases[test] += 1
            if cases[test] > mark.args[0]:
                item.add_marker(pytest.mark.slow)


def pytest_collection_finish():
    """What is imported by now stays to the end: collecting garbage takes half a second with it."""
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter, config):
    """Name each item that takes longer than it may, after a run of all quick tests, and keep what
    each took in build/durations.json."""
    whole = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    if not whole or config.option.collectonly or config.option.markexpr != "not slow":
        return
    seconds = Counter[str]()
    for report in chain(*terminalreporter.stats.values()):
        if isinstance(report, pytest.TestReport):
            seconds[report.nodeid] += report.duration
    known = tomllib.loads((ROOT / "tests" / "durations.toml").read_text(encoding="utf-8"))
    for item, taken in seconds.most_common():
        listed = item.startswith("tests/promises/") or item.partition("[")[0] in known
        if taken > MOST_SECONDS and not listed:
            words = f"{taken:.1f} s, and tests/durations.toml does not say why: {item}"
            terminalreporter.write_line(words, yellow=True)
    (ROOT / "build").mkdir(exist_ok=True)
    kept = json.dumps(dict(seconds.most_common()), indent=0)
    (ROOT / "build" / "durations.json").write_text(kept, encoding="utf-8")


@pytest.fixture(autouse=True, scope="session")
def own_home(tmp_path_factory):
    """A folder of the tests' own for what is kept between runs; not the user's."""
    os.environ.setdefault("SLIPSTREAM_HOME", str(tmp_path_factory.mktemp("home")))


@pytest.fixture(autouse=True)
def nothing_left_behind():
    """Fail a test that started a thread or a child process which outlives it."""
    threads, children = _threads(), _children()
    yield
    deadline = time.monotonic() + GRACE_SECONDS
    while (leaked := [*(_threads() - threads), *(_children() - children)]) and (
        time.monotonic() < deadline
    ):
        time.sleep(0.01)
    assert not leaked, f"left behind by the test: {leaked}"
