"""Reports of long steps: when, and with which line of the user's."""

import sys
import threading
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest
from numba import njit
from numba.extending import overload

from penstock.dsl.job import Job
from penstock.dsl.readers import read_iterable
from penstock.engine.connectors.local.memory_sink import MemorySink
from penstock.engine.core.clock import SystemClock
from penstock.engine.executors.embedded import EmbeddedJob
from penstock.engine.executors.managers.messages import OutOfStep, StuckInStep
from penstock.engine.executors.managers.step_report import (
    COMPILES,
    LongSteps,
    Step,
    StepReport,
    StepWatch,
    is_compiling,
    step_of,
)
from penstock.engine.jobs.attempt import JobPlan
from penstock.model.config import LoopOptions
from penstock.model.source_location import user_line_inside

SECOND_NS = 1_000_000_000
WAIT_S = 60


def looks(steps: LongSteps, *seen: tuple[int, Step | None]) -> list[list[StepReport]]:
    return [steps.look(second * SECOND_NS, step, lambda: "shop.py:7") for second, step in seen]


def test_a_long_step_is_told_when_it_has_taken_long_and_when_it_is_over() -> None:
    step = Step("map[1]", SECOND_NS)
    told = looks(LongSteps(), *((second, step) for second in range(1, 9)), (9, None), (10, None))
    assert told == [
        *([[]] * 5),
        [StuckInStep("map[1]", 5.0, "shop.py:7")],
        *([[]] * 2),
        [OutOfStep("map[1]", 8.0)],
        [],
    ]


def test_short_steps_and_a_loop_that_waits_are_not_spoken_of() -> None:
    seen = [(second, Step("map[0]", second * SECOND_NS)) for second in range(20)]
    assert looks(LongSteps(), *seen, *((second, None) for second in range(20, 40))) == [[]] * 40


def test_the_step_after_a_long_one_is_another() -> None:
    first, second, third = Step("map[0]", 0), Step("map[0]", 7 * SECOND_NS), Step("map[1]", 9 * SECOND_NS)
    told = looks(LongSteps(), (6, first), (8, second), (15, third), (16, None))
    assert told == [
        [StuckInStep("map[0]", 6.0, "shop.py:7")],
        [OutOfStep("map[0]", 7.0)],
        [StuckInStep("map[1]", 6.0, "shop.py:7")],
        [OutOfStep("map[1]", 7.0)],
    ]
    # Whoever could not look meanwhile tells both at once.
    told = looks(LongSteps(), (6, first), (20, third))
    assert [type(report) for report in told[1]] == [OutOfStep, StuckInStep]


def test_the_line_is_the_innermost_of_the_user_inside_the_loop() -> None:
    frame = sys._getframe()
    assert user_line_inside(frame, "elsewhere") == f"{__file__}:{frame.f_lineno}"
    # Whoever runs the loop is not in a step.
    assert user_line_inside(frame, __name__) == ""
    assert user_line_inside(None, "elsewhere") == ""


def slow(row: dict[str, Any], lock: threading.Lock) -> dict[str, Any]:
    with lock:
        return row


@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_function_that_hangs_is_found_in_a_job(tmp_path: Path, parallelism: int) -> None:
    job, sink, lock = Job(), MemorySink(), threading.Lock()
    rows = read_iterable([{"x": 1}], schema={"x": int}, job=job)
    rows.rebalance().map(lambda row: slow(row, lock), schema={"x": int}).name("slow").write(sink)
    runs = EmbeddedJob(JobPlan("hangs", job.plan(parallelism), LoopOptions(), tmp_path))
    reports: SimpleQueue[StepReport] = SimpleQueue()

    def run() -> None:
        watch = StepWatch(lambda: step_of(runs.worker), reports.put, SystemClock(), longest_ns=1, look_s=0.01)
        runs.run()
        over_told.wait(WAIT_S)
        watch.close()

    over_told = threading.Event()
    running = threading.Thread(target=run)
    with lock:
        running.start()
        while True:
            report = reports.get(timeout=WAIT_S)
            if isinstance(report, StuckInStep) and report.line not in ("", COMPILES):
                break
    assert report.instance.startswith("slow")
    assert report.line == f"{__file__}:{slow.__code__.co_firstlineno + 1}"
    while not isinstance(over := reports.get(timeout=WAIT_S), OutOfStep):
        pass
    over_told.set()
    running.join()
    assert over.instance == report.instance and over.seconds > report.seconds
    assert sink.rows() == [{"x": 1}]


def doubled(value: int) -> int:
    return value


def test_a_step_that_compiles_says_so() -> None:
    seen: list[bool] = []

    @overload(doubled)
    def _typed(value):  # type: ignore[no-untyped-def]
        seen.append(is_compiling(sys._getframe()))
        return lambda value: 2 * value

    kernel: Any = njit(lambda value: doubled(value))
    assert kernel(21) == 42
    assert seen and all(seen)
    assert not is_compiling(sys._getframe())
