"""Pipelines of which something is bound to the process that builds them."""

from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest

from penstock.cluster.bound_operators import check_unbound
from penstock.dsl.job import Job
from penstock.dsl.readers import read_iterable, read_memory
from penstock.dsl.stream import Stream
from penstock.model.errors import PlanError

FIELDS = pa.schema([("n", pa.int64())])


def numbers() -> Iterator[dict[str, int]]:
    yield {"n": 1}


def from_function(job: Job) -> Stream:
    return read_iterable(numbers, schema=FIELDS, job=job).name("numbers")


def iterator_read(job: Job) -> None:
    read_iterable(numbers(), schema=FIELDS, job=job).name("bound").print()


def memory_read(job: Job) -> None:
    read_memory([{"n": 1}], job=job).name("bound").print()


def collected(job: Job) -> None:
    from_function(job).collect()


def called(job: Job) -> None:
    from_function(job).for_each_batch(lambda rows: None).name("bound")


@pytest.mark.parametrize(
    ("build", "remedy"),
    [
        (iterator_read, "give a function that makes the iterable"),
        (memory_read, "write the rows to a file"),
        (collected, "write them to files or a topic"),
        (called, "write a Sink of your own"),
    ],
)
def test_what_is_bound_to_this_process_is_refused_with_its_line_and_a_remedy(
    build: Callable[[Job], None], remedy: str
) -> None:
    job = Job()
    build(job)
    with pytest.raises(PlanError) as refusal:
        check_unbound(job.plan(apart=True).graph)
    assert remedy in str(refusal.value)
    assert "test_bound_operators.py:" in str(refusal.value)


def test_rows_that_are_printed_may_be_printed_by_the_head() -> None:
    job = Job()
    from_function(job).print()
    check_unbound(job.plan(apart=True).graph)
