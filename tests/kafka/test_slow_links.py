"""N2 (docs/design/fault-tests.md 2) for seconds: a link with delay, little room and lost packets kills no job."""

from pathlib import Path

import pytest

from tests.chaos.kafka_links import slow_links
from tests.chaos.link_shape import Line, Shape

EVENTS, SECONDS = 10_000, 8.0


@pytest.mark.slow
@pytest.mark.long("a job on a slow link for seconds; test_source outlives a broker that is gone")
def test_n2_a_job_outlives_a_slow_link(tmp_path: Path) -> None:
    report = slow_links(tmp_path, EVENTS, SECONDS, seed=1)
    assert report.failure is None, report.failure
    assert report.restarts == 0 and report.rows and report.rows_in == EVENTS
    assert (report.lost, report.duplicated) == (0, 0), report


def test_a_line_delays_and_shares_its_room() -> None:
    line = Line(0)
    assert line.arrival(5.0, 1_000, 0.0) == 5.0
    line.bend(Shape(delay_s=0.3, bytes_per_s=1_000))
    assert [line.arrival(5.0, 500, 0.0) for _ in range(3)] == pytest.approx([5.8, 6.3, 6.8])
    assert line.arrival(10.0, 500, 0.0) == pytest.approx(10.8)
    line.bend(Shape())
    assert line.arrival(10.0, 500, after=12.0) == 12.0


def test_lost_pieces_stall_what_is_behind_them_and_a_seed_draws_them() -> None:
    shape = Shape(loss=0.05)
    first, second, other = Line(1), Line(1), Line(2)
    drawn = []
    for line in (first, second, other):
        line.bend(shape)
        drawn.append([line.arrival(0.0, 1, 0.0) for _ in range(4_000)])
    stalls = [time for time in drawn[0] if time > 0.0]
    assert drawn[0] == drawn[1] != drawn[2]
    assert 150 < len(stalls) < 250 and min(stalls) >= 0.2 and max(stalls) <= 0.4
    assert first.arrival(0.0, 1, after=1.0) >= 1.0
