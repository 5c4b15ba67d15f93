"""How fast a download is, by what was received over the last seconds."""

from models.hub.watching import WINDOW_SECONDS, Meter


def test_no_rate_is_known_at_first():
    meter = Meter()
    assert meter.bytes_per_second == 0.0
    assert meter.seconds_left(100) is None
    meter.tell(5.0, 1_000_000)  # was there before
    assert meter.bytes_per_second == 0.0
    meter.tell(5.0, 1_000_500)  # in no time
    assert meter.bytes_per_second == 0.0


def test_a_steady_stream():
    meter = Meter()
    for second in range(30):
        meter.tell(float(second), 500 + 100 * second)
    assert meter.bytes_per_second == 100.0
    assert meter.seconds_left(1_000) == 10.0
    assert meter.seconds_left(0) == 0.0


def test_what_was_long_ago_does_not_count():
    meter = Meter()
    for second in range(10):
        meter.tell(float(second), 1_000_000 * second)
    for second in range(10, 10 + 2 * int(WINDOW_SECONDS)):
        meter.tell(float(second), 9_000_000)
    assert meter.bytes_per_second == 0.0
    assert meter.seconds_left(1_000) is None


def test_a_file_that_was_thrown_away_starts_the_count_afresh():
    meter = Meter()
    for second in range(5):
        meter.tell(float(second), 1_000 * second)
    meter.tell(5.0, 0)
    meter.tell(6.0, 10)
    assert meter.bytes_per_second == 10.0
