"""``penstock list`` of heads that do not answer, or have left."""

from typing import Any, cast

from penstock.cluster.heads import Head, HeadAwayError
from penstock.commands.jobs_on_ray import collected_reports
from penstock.model.errors import WorkerLostError


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
