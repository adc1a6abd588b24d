"""Limits that change while a job runs hold from the next cycle on; what a job cannot have is refused at once."""

import pytest

from penstock.engine.control.load_shedding import LoadShedding
from penstock.engine.control.shedding_scope import check_limits
from penstock.engine.jobs.running_limits import RunningLimits
from penstock.model.control import Control, Limits, QueryLimit, limits_of
from penstock.model.errors import OptionError
from tests.engine.control.simulated_stream import SimulatedStream, one_query


def test_a_lower_minimum_is_made_use_of_in_the_next_cycle() -> None:
    stream = SimulatedStream(1e-3, minimum=0.75)
    for _ in range(3):
        assert stream.cycle(2_000.0) in (1.0, 0.75)
    stream.shedding.change(Limits(queries={"sink": QueryLimit(min_accuracy=0.25)}))
    assert stream.cycle(2_000.0) < 0.5


def test_shedding_is_switched_off_and_on_within_a_cycle() -> None:
    stream = SimulatedStream(1e-3)
    for _ in range(3):
        stream.cycle(2_000.0)
    assert stream.keep < 1.0
    stream.shedding.change(Limits("off"))
    assert stream.shedding.shed == "off" and stream.cycle(2_000.0) == 1.0
    stream.shedding.change(Limits("qod"))
    for _ in range(2):
        stream.cycle(2_000.0)
    assert stream.keep < 1.0


def test_a_job_that_sheds_nothing_begins_to_when_it_is_told() -> None:
    shedding = LoadShedding(one_query(), Control("off", "act"))
    shedding.change(Limits("qod"))
    assert shedding.shed == "qod"


def test_limits_of_what_there_is_not_are_refused_and_change_nothing() -> None:
    limits = RunningLimits()
    with pytest.raises(OptionError, match="has no control of load"):
        limits.change(Limits("off"))
    limits.watch(lambda wanted: check_limits(one_query(), wanted), "off")
    with pytest.raises(OptionError, match=r"there is no query 'cold' with a minimum accuracy .* choose from 'sink'"):
        limits.change(Limits(queries={"cold": QueryLimit(0.5)}))
    assert limits.wanted == Limits()
    with pytest.raises(OptionError, match="this job has none"):
        check_limits(one_query(1.0), Limits(queries={"sink": QueryLimit(0.5)}))
    assert limits.change(Limits(queries={"sink": QueryLimit(0.5)})) == Limits(queries={"sink": QueryLimit(0.5)})


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ((None, None, 0.5, None), "min_accuracy, max_error and priority are those of a query"),
        ((None, None, None, None), "say what is to change: shed"),
        ((None, "hot", None, None), "say what is to change of query 'hot'"),
    ],
)
def test_a_change_says_what_is_to_change(
    values: tuple[str | None, str | None, float | None, int | None], sentence: str
) -> None:
    with pytest.raises(OptionError, match=sentence):
        limits_of(*values)
