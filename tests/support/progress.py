"""A line after every tenth of a long run, and none for a test that passed.

A plugin of pytest: `-p tests.support.progress`, as `make test` says it.
"""

import time
from collections import Counter

import pytest
from _pytest.subtests import SubtestReport
from _pytest.terminal import TerminalReporter

STEPS = 10


class Progress:
    """Counts the tests that have ended. Where xdist runs them, its controller hears of all."""

    def __init__(self, reporter: TerminalReporter) -> None:
        self._reporter, self._began = reporter, time.monotonic()
        self._all, self._ended, self._outcomes = 0, set[str](), Counter[str]()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._all = len(session.items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: object, ids: list[str]) -> None:
        self._all = len(ids)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if isinstance(report, SubtestReport):  # its test is counted
            return
        if report.failed:
            self._outcomes["failed"] += 1
            self._reporter.write_line(f"FAILED {report.nodeid} ({report.when})")
        if report.when == "teardown":
            before = len(self._ended) * STEPS // max(self._all, 1)
            self._ended.add(report.nodeid)
            after = len(self._ended) * STEPS // max(self._all, 1)
            if after > before:
                self._write()

    def _write(self) -> None:
        ended, seconds = len(self._ended), int(time.monotonic() - self._began)
        self._reporter.write_line(
            f"{100 * ended // self._all:3} %  {ended:,} of {self._all:,} tests, "
            f"{self._outcomes['failed']} failed, {seconds // 60}:{seconds % 60:02} minutes"
        )


@pytest.hookimpl(tryfirst=True)
def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, str] | None:
    """Passed tests count, and write nothing."""
    if report.when != "call" or not report.passed:
        return None
    return ("subtests passed" if isinstance(report, SubtestReport) else "passed", "", "")


@pytest.hookimpl(trylast=True)  # when there is a reporter
def pytest_configure(config: pytest.Config) -> None:
    reporter = config.pluginmanager.getplugin("terminalreporter")
    if reporter is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Progress(reporter), "progress")
