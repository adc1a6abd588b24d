"""What a job's controllers see and decide is decided again from the log; the job outlives it."""

from pathlib import Path
from typing import Any

import pytest

from penstock.engine.control import decision_log
from penstock.engine.control.decision_log import DecisionLog, before
from penstock.engine.control.decision_replay import redecide
from penstock.engine.control.job_control import JobControl
from penstock.engine.control.load_shedding import LoadShedding
from penstock.engine.control.start_control import RECOMMENDED
from penstock.model.errors import OptionError
from penstock.scheduler.action_log import GOES_ON, ActionLog, EntryKind, read_log
from tests.engine.control.readings import (
    MANAGERS,
    OPTIONS,
    SECOND_NS,
    TICKS,
    graph,
    hear_burner,
    job_places,
    machine,
    part,
    ran,
)

GRAPH = graph()
SOURCE, COUNT = (GRAPH.name(task) for task in GRAPH.tasks)


def watched(path: Path, warned: list[str]) -> JobControl:
    return JobControl("test", GRAPH, OPTIONS, 0, DecisionLog(path, warned.append), LoadShedding(GRAPH, RECOMMENDED))


def live(control: JobControl, seconds: int) -> None:
    """Place the instances of a job, and let it run for so many ticks."""
    control.know({SOURCE: 30.0, COUNT: 15.0})
    hear_burner(control, 1.0)
    places = control.place(job_places(), SECOND_NS)
    for second in range(2, 2 + seconds):
        for name in MANAGERS:
            rows = {
                (name_of == COUNT, number): ran(second, 0.1 * second, 50 * second)
                for name_of in (SOURCE, COUNT)
                for number in range(2)
                if places[f"{name_of}[{number}]"] == name
            }
            read = part(second, {(int(task), number): figures for (task, number), figures in rows.items()})
            control.hear(
                name, machine(second, 0.2 * second, [0.9 * second]), read if rows else None, second * SECOND_NS
            )
        control.tick(job_places(places), second * SECOND_NS)
    control.close()


def test_a_log_of_a_job_is_decided_again_as_it_was(tmp_path: Path) -> None:
    path, warned = tmp_path / "actions.jsonl", list[str]()
    for _ in range(2):
        # A second run goes on with the log; its policies forget.
        live(watched(path, warned), 2 * TICKS)
    placements, sheddings = list(redecide(path, "placement", {})), list(redecide(path, "qod", {}))
    assert len(placements) == 2 * (1 + 2 * TICKS) and len(sheddings) == 2 * 2
    assert all(decided.same for decided in [*placements, *sheddings])
    first = placements[0].recorded
    assert first is not None and first["kind"] == "Placement" and len(first["moves"]) == 4
    # What is not measured is said, not taken for 0.
    assert {decided.decision.reason for decided in sheddings} == {f"not measured: what source {SOURCE!r} is offered"}
    assert warned == []


def test_another_policy_decides_otherwise_on_the_same_log(tmp_path: Path) -> None:
    path = tmp_path / "actions.jsonl"
    live(watched(path, []), 1)
    blind = next(iter(redecide(path, "placement", {"known_cpu": {}})))
    assert blind.same is False


def test_a_log_that_cannot_be_written_is_refused_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"action_log .*/none/actions.jsonl' cannot be written .*: name a file"):
        DecisionLog(tmp_path / "none" / "actions.jsonl", print)


def test_a_log_ends_when_the_disk_is_full_and_the_job_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, warned = tmp_path / "actions.jsonl", list[str]()
    control = watched(path, warned)

    def refuse(*arguments: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(decision_log.ActionLog, "snapshot", refuse)
    live(control, 2)
    assert warned == [f"ACTION LOG ENDED: {str(path)!r}: No space left on device; the job goes on without it."]
    assert [entry.kind for entry in read_log(path)] == [EntryKind.LOG, EntryKind.POLICY]


def test_a_log_that_became_too_large_is_set_aside(tmp_path: Path) -> None:
    path, warned = tmp_path / "actions.jsonl", list[str]()
    log = DecisionLog(path, warned.append, ("placement",), most_bytes=20_000)
    live(JobControl("test", GRAPH, OPTIONS, 0, log, LoadShedding(GRAPH, RECOMMENDED)), 12 * TICKS)
    aside = before(path)
    assert aside == tmp_path / "actions.before.jsonl" and warned == []
    for file in (aside, path):
        again = list(redecide(file, "qod", {}))
        assert again and all(item.same for item in again)
        entries = list(read_log(file))
        assert "placement" not in {entry.content.get("policy") for entry in entries}
        assert (entries[1].kind, GOES_ON in entries[1].content) == (EntryKind.POLICY, file == path)
    assert aside.stat().st_size > 20_000


def test_without_a_log_nobody_recommends() -> None:
    control = JobControl("test", GRAPH, OPTIONS, 0)
    live(control, TICKS)
    assert control.measured_cpu.keys() == {SOURCE, COUNT}


def test_lines_that_nobody_acts_on_need_not_be_on_disk_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr("penstock.scheduler.action_log.os.fsync", synced.append)
    with ActionLog(tmp_path / "log", durable=False) as log:
        log.policy("placement", {})
        assert synced == []
        log.sync()
        assert len(synced) == 1
    assert len(list(read_log(tmp_path / "log"))) == 2
