"""``penstock list`` of heads that do not answer, or have left; commands where no cluster answers."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest

from penstock.cluster import connection
from penstock.cluster.heads import Head, HeadAwayError
from penstock.commands.jobs_on_ray import collected_reports
from penstock.model.errors import RetryableError, WorkerLostError


class AnsweringHead:
    def __init__(self, answer: str | Exception) -> None:
        self.answer = answer

    def report(self) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def test_heads_that_do_not_answer_hide_no_others() -> None:
    away, gone = HeadAwayError("the head of job 'b' does not answer"), WorkerLostError("gone")
    heads = [cast("Head", AnsweringHead(answer)) for answer in ("a", away, gone, "c")]
    assert collected_reports(heads) == (["a", "c"], [away])


def test_where_no_cluster_answers_it_is_said_how_jobs_without_ray_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = False

    @contextmanager
    def connected(address: str, cpus: int, **options: Any) -> Iterator[None]:
        if not answers:
            raise RetryableError(f"no Ray cluster answers at {address!r}: nobody there.")
        yield

    monkeypatch.setattr(connection, "connected", connected)
    by_url = r"'here:1': nobody there; a job that runs without Ray goes by the URL"
    with pytest.raises(RetryableError, match=by_url), connection.connected_to_jobs("here:1"):
        raise AssertionError
    answers = True
    # What fails later is no matter of the name.
    with pytest.raises(RetryableError, match=r"^later$"), connection.connected_to_jobs("here:1"):
        raise RetryableError("later")
