"""The veto on growth for a slow service: what a row waits for counts, or a call, where the service is measured."""

from dataclasses import replace

import numpy as np
import pytest

from penstock.model.snapshot import ClusterSnapshot, ServiceColumns
from penstock.scheduler.service_veto import UsualWait, service_vetoes
from tests.scheduler.hostile_cases import changed, job

TASK = ("job", "split")


def asked(wait: float, rows: float, latency_ms: float | None = None, name: str = "split") -> ClusterSnapshot:
    """Return a job whose two instances of 'split' wait for so much of their time, and take so many rows in it."""
    waits = {"instances.remote_wait_ns": [0.0, wait * 1e10, wait * 1e10, 0.0, 0.0]}
    snapshot = changed(job(), {**waits, "instances.records_in": [15_000, rows, rows, 10_000, 10_000]})
    latency = np.array([np.nan if latency_ms is None else latency_ms])
    return replace(snapshot, services=ServiceColumns((name,), np.array([0], np.int32), latency_ms=latency))


def vetoed(first: ClusterSnapshot, then: ClusterSnapshot) -> bool:
    _, usual = service_vetoes(first, UsualWait(), 3.0)
    return bool(service_vetoes(then, usual, 3.0)[0][1])


def test_more_rows_than_calls_can_wait_beside_each_other_are_no_slow_service() -> None:
    """Few rows hardly wait, as their calls go on meanwhile; with more the loop waits for an answer all the time."""
    calm, full = asked(0.05, 500.0, 54.0), asked(0.96, 750.0, 55.0)
    assert not vetoed(calm, full)
    assert vetoed(calm, asked(0.96, 150.0, 250.0))
    assert vetoed(calm, asked(0.96, 0.0))
    # Of a service that has another name only the wait of a row is known.
    assert vetoed(asked(0.05, 500.0, 54.0, "geo"), asked(0.96, 750.0, 55.0, "geo"))


def test_what_a_call_takes_is_learnt_and_a_window_without_an_answer_is_not() -> None:
    _, usual = service_vetoes(asked(0.05, 500.0, 54.0), UsualWait(), 3.0)
    assert usual.ns_per_row[TASK] == pytest.approx(54e6)
    _, after = service_vetoes(asked(0.05, 500.0, 64.0), usual, 3.0)
    assert after.ns_per_row[TASK] == pytest.approx(55e6)
    _, silent = service_vetoes(asked(0.05, 0.0), after, 3.0)
    assert silent.ns_per_row == after.ns_per_row


def test_what_is_usual_of_a_task_that_is_gone_is_forgotten() -> None:
    _, usual = service_vetoes(asked(0.05, 500.0), UsualWait({TASK: 1e6, ("job", "gone"): 1e6}), 3.0)
    assert set(usual.ns_per_row) == {TASK}
