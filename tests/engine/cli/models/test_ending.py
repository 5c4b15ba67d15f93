"""Being asked to end, once and twice."""

import signal

import pytest

from engine.cli.models.ending import Ended, endable


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_is_noted_and_the_second_acts(number: int) -> None:
    acted: list[int] = []
    before = signal.signal(number, lambda received, _: acted.append(received))
    try:
        with endable() as ending:
            ending.check()
            assert not ending()
            signal.raise_signal(number)
            assert ending()
            assert ending.signal == number
            with pytest.raises(Ended):
                ending.check()
            assert acted == []
            signal.raise_signal(number)
            assert acted == [number]
    finally:
        signal.signal(number, before)


def test_handlers_are_put_back() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with endable():
        assert signal.getsignal(signal.SIGINT) not in before
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
