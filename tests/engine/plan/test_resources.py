"""Operators say what each instance needs beyond a core: it is in the plan, and refused where nobody can give it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

import penstock as ps
from penstock import col
from penstock.engine.plan.resources import instance_ranks, rank_needs, task_resources
from penstock.http_api.job_answers import graph_answer
from penstock.model.errors import OptionError, PlanError
from penstock.model.execution_graph import ExecutionGraph
from penstock.plan_views.words import plan_data


def score(row: dict[str, Any]) -> dict[str, Any]:
    return row


def scored(parallelism: int, *, job: ps.Job | None = None) -> ps.Job:
    """Return a job of three tasks, of which the second needs half a GPU and three lenses."""
    job = job or ps.Job()
    bids = ps.read_nexmark("bid", ps.NexmarkConfig(events=100), job=job).name("bids").parallelism(1)
    model = bids.rebalance().map(score).name("score").resources(num_gpus=0.5, custom={"lens": 3})
    model.parallelism(parallelism).rebalance().filter(col("price") > 0).name("dear").write_black_hole().name("out")
    return job


def needs(plan: ExecutionGraph) -> list[Mapping[str, float]]:
    return [task_resources(plan, task) for task in plan.tasks]


def test_the_task_of_an_operator_needs_what_that_needs_and_no_other_does() -> None:
    plan = scored(2).plan(2)
    assert needs(plan) == [{}, {"GPU": 0.5, "lens": 3.0}, {}]
    assert needs(cloudpickle.loads(cloudpickle.dumps(plan))) == needs(plan)
    assert rank_needs(plan, 2).operators.startswith("'score' at ")
    assert [task.resources for task in graph_answer("scores", plan).tasks] == [{}, {"GPU": 0.5, "lens": 3.0}, {}]


@pytest.mark.parametrize(
    ("parallelism", "count", "resources"),
    [
        (2, 3, [{"GPU": 0.5, "lens": 3.0}, {"GPU": 0.5, "lens": 3.0}]),
        # Three instances go to two task managers: the first has two of them.
        (3, 2, [{"GPU": 1.0, "lens": 6.0}, {"GPU": 0.5, "lens": 3.0}]),
        # Of more than one there are whole ones only.
        (3, 1, [{"GPU": 2.0, "lens": 9.0}]),
    ],
)
def test_how_many_task_managers_have_it_follows_from_parallelism(
    parallelism: int, count: int, resources: list[Mapping[str, float]]
) -> None:
    plan = scored(parallelism).plan(1)
    assert list(rank_needs(plan, count).ranks) == resources
    ranks = instance_ranks(plan, frozenset(task.id for task in plan.tasks), count)
    assert sorted(ranks.values()) == sorted(number % count for number in range(parallelism))


def test_a_plan_shows_it() -> None:
    job = scored(2)
    assert "needs    0.5 GPU, 3 lens" in ps.explain(job)
    details = {
        operator["name"]: operator["details"]
        for task in plan_data(job.plan())["tasks"]
        for operator in task["operators"]
    }
    assert details["score"]["needs"] == "0.5 GPU, 3 lens" and "needs" not in details["bids"]


def test_an_operator_with_needs_is_merged_with_none_that_has_others() -> None:
    job = ps.Job()
    rows = ps.read_nexmark("bid", ps.NexmarkConfig(events=100), job=job).select("price")
    rows.select(twice=col("price") * 2).resources(num_gpus=1).write_black_hole()
    assert sum(node.resources == (("GPU", 1.0),) for node in job.plan().graph.operators.values()) == 1
    assert sum(node.kind == "project" for node in job.plan().graph.operators.values()) == 2


@pytest.mark.parametrize("options", [{}, {"executor": "processes", "task_managers": 2}])
def test_who_cannot_give_it_refuses_it_by_operator_and_line(options: Any, tmp_path: Path) -> None:
    executor = options.get("executor", "embedded")
    words = (
        rf"'score' at .*test_resources.py:\d+ needs 0.5 GPU, 3 lens for each instance, which executor='{executor}' "
        r"cannot give: run it on a Ray cluster \(executor='ray'\), or leave out resources\(\)"
    )
    with pytest.raises(PlanError, match=words):
        scored(2).run("scored", directory=tmp_path, **options)


def test_what_stays_in_the_callers_process_can_be_given_nothing(tmp_path: Path) -> None:
    job = ps.Job()
    ps.read_memory([{"a": 1}], job=job).name("rows").resources(num_gpus=1).write_black_hole()
    with pytest.raises(PlanError, match=r"'rows' at .* stays in the process that starts the job, .* its resources\(\)"):
        job.run("scored", directory=tmp_path, executor="ray", attached=True, task_managers=1)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, r"resources\(\) says what each instance needs"),
        ({"num_gpus": -1}, "a part of one GPU, or a whole number of them, not -1"),
        ({"num_gpus": 1.5}, "a part of one GPU, or a whole number of them, not 1.5"),
        ({"num_gpus": True}, "a part of one GPU"),
        ({"custom": {"tpu": float("nan")}}, "a part of one tpu"),
        ({"custom": {"GPU": 1}}, "names of your own, not 'GPU'"),
    ],
)
def test_a_wrong_amount_is_refused_where_it_is_written(given: Any, words: str) -> None:
    rows = ps.read_memory([{"a": 1}], job=ps.Job())
    for last in (rows, rows.write_black_hole()):
        with pytest.raises(OptionError, match=words):
            last.resources(**given)
