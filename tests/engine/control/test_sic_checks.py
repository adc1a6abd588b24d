"""The CPU of checks of what waits, from the processes that make them to the status of the job."""

from dataclasses import replace

import penstock as ps
from penstock.engine.control.job_control import JobControl
from penstock.engine.control.load_shedding import LoadShedding
from penstock.engine.jobs.metrics import no_metrics
from penstock.model.sic import NO_CHECKS, CheckTimes
from tests.engine.control.readings import MANAGERS, OPTIONS, SECOND_NS, graph, job_places, machine, part, ran

SPENT = {"tm-0": CheckTimes(4, 8_000_000, 3_000_000), "tm-1": CheckTimes(2, 2_000_000, 1_500_000)}


def test_checks_add_up_and_the_longest_stays() -> None:
    times = NO_CHECKS
    for spent_ns in (2, 5, 1):
        times = times.after(spent_ns)
    assert times == CheckTimes(3, 8, 5)
    assert times + CheckTimes(1, 6, 6) == CheckTimes(4, 14, 6)


def test_the_status_has_the_checks_of_all_processes_that_live() -> None:
    plan = graph()
    control = ps.Control(shed="sic", mode="act", period_s=1)
    job = JobControl("test", plan, OPTIONS, 0, shedding=LoadShedding(plan, control))
    for second in (1, 2, 3):
        if second == 3:
            job.forget("tm-1")
        for number, name in enumerate(MANAGERS[: 1 if second == 3 else 2]):
            rows = {(task, number): ran(float(second), 0.1 * second) for task in (0, 1)}
            read = replace(part(float(second), rows), checks=SPENT[name])
            job.hear(name, machine(float(second)), read, second * SECOND_NS)
        job.tick(job_places(), second * SECOND_NS)
        status = job.shown(no_metrics("test"), second * SECOND_NS).shedding
        assert status is not None
        expected = (4, 8.0, 3.0) if second == 3 else (6, 10.0, 3.0)
        assert (status.checks, status.checks_ms, status.longest_check_ms) == expected
