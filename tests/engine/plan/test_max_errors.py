"""Queries that want a certain error: what they cannot have is refused where it is built, with a sentence."""

from collections.abc import Callable

import pytest

import penstock as ps
from penstock.model.errors import OptionError, PlanError
from penstock.model.expressions import col
from penstock.model.job_graph import AggregateSpec, SinkSpec
from penstock.model.max_error import LEAST_KEEP
from tests.engine.plan.test_shedding_points import minute, rows


def test_the_confidence_of_a_query_is_that_of_its_intervals() -> None:
    job = ps.Job()
    made = minute(rows(job)).name("minutes")
    made.write_black_hole().name("fine").with_max_error(0.05, confidence=0.99, groups=0.9)
    plan = job.plan().graph
    (aggregate,) = (node.spec for node in plan.operators.values() if isinstance(node.spec, AggregateSpec))
    assert aggregate.confidence == 0.99
    (sink,) = (node.spec for node in plan.operators.values() if isinstance(node.spec, SinkSpec))
    assert sink.min_accuracy == LEAST_KEEP and sink.under_contract
    assert sink.max_error is not None
    assert sink.max_error.text() == "max error 0.05 of 0.9 of rows at confidence 0.99, otherwise keep"
    made.write_black_hole().name("rough").with_min_accuracy(0.5)
    with pytest.raises(
        PlanError, match=r"'minutes' at .* at one confidence, but query 'fine' .* 0\.99 and query 'rough'"
    ):
        job.plan()


def test_a_minimum_accuracy_stays_and_all_rows_are_no_minimum() -> None:
    job = ps.Job()
    sink = minute(rows(job)).write_black_hole().with_min_accuracy(0.3).with_max_error(0.05)
    (spec,) = (node.spec for node in job.plan().graph.operators.values() if isinstance(node.spec, SinkSpec))
    assert spec.min_accuracy == 0.3
    with pytest.raises(OptionError, match=r"with_min_accuracy\(1\.0\) forbids what with_max_error\(\) allows"):
        sink.with_min_accuracy(1.0)


Made = Callable[[ps.Stream], ps.Stream]


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda stream: stream, "it writes rows of 'source-1' at .* and no aggregates"),
        (
            lambda stream: stream.key_by("key").window(ps.tumbling("1m")).agg(top=ps.max_("paid")).name("tops"),
            r"'top' of 'tops' at .* \(max over .*\) has no interval: only count, sum and mean",
        ),
        (
            lambda stream: stream.key_by("key").window(ps.session("1m")).agg(n=ps.count()).name("visits"),
            r"'n' of 'visits' at .* \(count over .*\) has no interval",
        ),
        (
            lambda stream: minute(stream).name("one").key_by("key").agg(all=ps.sum_("n")).name("two"),
            "'two' at .* aggregates results of 'one' at",
        ),
        (lambda stream: stream.map(lambda row: row, schema=None).name("mapped"), r"what 'mapped' at .* \(map\) makes"),
        (
            lambda stream: minute(stream).select("key", double=col("n") * 2),
            "none of its columns is a count, sum or mean",
        ),
    ],
)
def test_results_without_intervals_are_refused(make: Made, sentence: str) -> None:
    job = ps.Job()
    made = make(rows(job))
    mode = "changelog" if made.updating else "append"
    made.write_black_hole(mode=mode).name("hot").with_max_error(0.05)
    with pytest.raises(PlanError, match=rf"query 'hot' at .* wants a maximum error, but {sentence}"):
        job.plan()


def test_where_nothing_may_be_shed_no_error_can_be_wanted() -> None:
    job = ps.Job()
    source = ps.read_memory([{"key": 1, "at": 0}], job=job, shed=False).name("still")
    source.key_by("key").agg(n=ps.count()).write_black_hole(mode="changelog").name("hot").with_max_error(0.05)
    with pytest.raises(PlanError, match=r"nothing may be shed for it, .* source 'still': it was read with shed=False"):
        job.plan()


def test_intervals_are_what_says_the_error() -> None:
    job = ps.Job()
    minute(rows(job)).write_black_hole().with_min_accuracy(0.5, columns=False).with_max_error(0.05)
    with pytest.raises(PlanError, match="columns=False takes away the intervals"):
        job.plan()


def test_a_key_is_not_left_out() -> None:
    job = ps.Job()
    made = minute(rows(job))
    made.write_black_hole(mode="upsert", key="n").with_max_error(0.05, otherwise="null")
    with pytest.raises(PlanError, match="would have null in its key 'n'"):
        job.plan()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"error": 0.0}, r"a maximum error is a number above 0 and below 1, not 0\.0"),
        ({"error": 1}, "above 0 and below 1, not 1"),
        ({"error": "5%"}, "not '5%'"),
        ({"error": True}, "not True"),
        ({"error": 0.1, "confidence": 1.0}, "the confidence of an interval is a number above 0"),
        ({"error": 0.1, "confidence": 0.9999}, "at most 0.999"),
        ({"error": 0.1, "groups": 1.5}, "the share of rows that an error holds for"),
        ({"error": 0.1, "otherwise": "drop"}, "is 'keep', 'null' or 'correct', not 'drop'"),
    ],
)
def test_what_is_no_error_is_refused(options: dict[str, object], sentence: str) -> None:
    job = ps.Job()
    with pytest.raises(OptionError, match=sentence):
        minute(rows(job)).write_black_hole().with_max_error(**options)  # type: ignore[arg-type]


def test_only_what_takes_corrections_waits_for_them() -> None:
    job = ps.Job()
    minute(rows(job)).write_black_hole().name("hot").with_max_error(0.05, otherwise="correct")
    with pytest.raises(PlanError, match=r"'hot' at .* but black hole takes no corrections, .* otherwise='keep'"):
        job.plan()
    job = ps.Job()
    made = minute(rows(job)).write_kafka("minutes", kafka="nowhere:9092", key="key")
    made.name("hot").with_max_error(0.05, otherwise="correct")
    (spec,) = (node.spec for node in job.plan().graph.operators.values() if isinstance(node.spec, SinkSpec))
    assert spec.queues_wide
