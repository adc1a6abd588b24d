"""Flink-ER on real parts: its applications, figures of runs whose answers are known, and one small run."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.benchmarks.papers.flink_er.real_applications import (
    ADS_PER_CAMPAIGN,
    BUCKET_MS,
    CAMPAIGNS,
    COUNT,
    LINE_WORDS,
    QUERY,
    WORDS,
    even_lines,
    events,
    every_word,
    of_campaign,
    split,
    zipf_lines,
)
from penstock.benchmarks.papers.flink_er.real_cases import KEY_GROUPS, LOADS, Quick, case, cases, restarted
from penstock.benchmarks.papers.flink_er.real_charts import charts
from penstock.benchmarks.papers.flink_er.real_figures import (
    Written,
    acted,
    decided_s,
    lag_over_s,
    moved_pauses_s,
    natural_pauses_s,
    still_s,
    written,
    wrong_counts,
)
from penstock.benchmarks.papers.flink_er.real_rows import rows
from penstock.benchmarks.papers.real.application import Application, Setting, attribute
from penstock.benchmarks.papers.real.case import RealCase
from penstock.benchmarks.papers.real.runner import run_case
from penstock.benchmarks.papers.real.scale import Scale
from penstock.benchmarks.papers.real.schedule import Phase, rows_due
from penstock.benchmarks.papers.real.seen import SeenRun
from penstock.benchmarks.papers.real.wanted import Wanted
from penstock.engine.control.steering import scaler
from penstock.model.control import Control
from penstock.model.key_groups import key_groups_at
from penstock.model.plan import RescalePlan, TaskSize
from penstock.model.scaling_status import ScalingStatus
from penstock.scheduler.action_log import ActionLog
from penstock.scheduler.flink_er import FlinkEr
from penstock.state.keys.batch_keys import KeyCodec
from tests.scheduler.scaling_jobs import Job, Task, measured

PHASES = (Phase(60.0, 10.0), Phase(120.0, 20.0))
MOVED_S, LATE_UNTIL_S = 15.0, 18.0
SAID = ScalingStatus("flink-er", "act", "it is narrow", (("count", 1, 2),), "begun").sentence()
AT = datetime(2026, 1, 1, 12, 0, 3, 500_000, UTC)


def words_of(lines: Sequence[bytes]) -> Counter[str]:
    return Counter(word for line in lines for word in json.loads(line)["line"].split())


def test_words_come_as_often_as_their_exponent_says_and_each_is_held_once() -> None:
    held = words_of(every_word())
    assert len(held) == WORDS and set(held.values()) == {1}
    even, zipf = words_of(even_lines()), words_of(zipf_lines())
    assert max(even.values()) < 30
    # The first of 10,000 words is 1 / 9.8 of all by Zipf 1, and comes twice as often as the second.
    (_, first), (_, second) = zipf.most_common(2)
    assert first / zipf.total() == pytest.approx(1 / 9.79, rel=0.05) and first / second == pytest.approx(2.0, rel=0.1)


def test_lines_are_split_and_views_find_their_campaign() -> None:
    line = json.loads(even_lines()[0])
    rows = list(split({**line, "at": AT}))
    assert len(rows) == LINE_WORDS and all(not row["is_first"] for row in rows)
    campaigns = {of_campaign({"ad": ad, "at": AT})["key"] for ad in range(CAMPAIGNS * ADS_PER_CAMPAIGN)}
    assert len(campaigns) == CAMPAIGNS
    assert of_campaign({"ad": 1, "at": AT})["bucket"] == int(AT.timestamp() * 1_000) // BUCKET_MS
    kinds = Counter(json.loads(event)["kind"] for event in events())
    assert kinds["view"] / kinds.total() == pytest.approx(1 / 3, rel=0.05)


def test_every_case_can_be_planned_and_counts_in_a_task_of_its_own() -> None:
    wanted = cases(Scale.FULL, 3)
    names = [made.name for made, _ in wanted]
    assert len(set(names)) == len(names)
    for made, times in wanted:
        setting = Setting("127.0.0.1:1", tuple(made.topics), Path("unused"), None, made.options)
        application: Application = attribute(made.application)(setting)
        plan = application.job.plan(1, apart=True)
        (counting,) = [task for task in plan.tasks if COUNT in plan.name(task).split(" -> ")]
        assert plan.name(counting).split(" -> ")[0] == COUNT
        assert times >= 1 and callable(attribute(made.exact)) and LOADS[1] == 2 * LOADS[0]
        assert made.restarts == made.name.endswith("-restart")


def test_the_policy_of_the_small_run_is_the_one_of_the_long_ones_and_looks_more_often() -> None:
    often = scaler(Control(**case(Scale.SMOKE, "zipf-1").control))
    seldom = scaler(Control(**case(Scale.SHORT, "zipf-1").control))
    assert often.every_s == Quick().period_s < seldom.every_s and often.role.owns == seldom.role.owns
    assert issubclass(Quick, FlinkEr)


def kept_run(folder: Path, pause_s: float = 0.1, *, acts: bool = True, lost: bool = False) -> tuple[SeenRun, Written]:
    """Write a run in which half of the key groups move at 15 s, and rows are late from 10 to 18 s."""
    at_s = np.arange(0.0, 30.0, 0.01)
    at_s = at_s[(at_s < MOVED_S) | (at_s >= MOVED_S + pause_s)]
    words = [f"w{number % 40}" for number in range(len(at_s))]
    hashes = KeyCodec([pa.string()]).hash([pa.array(words)])
    groups = key_groups_at((hashes >> np.uint64(32)).astype(np.uint32), KEY_GROUPS)
    seen: Counter[str] = Counter()
    out: list[dict[str, Any]] = []
    for word, group, at in zip(words, groups.tolist(), at_s.tolist(), strict=True):
        seen[word] += 1
        late = 2_000 if 10.0 <= at < LATE_UNTIL_S else 50
        owner = int(at >= MOVED_S and group % 2 == 0)
        out.append({"key": word, "bucket": 0, "n": seen[word], "late_ms": late, "at_ns": int(at * 1e9), "owner": owner})
    (folder / "job" / QUERY).mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(out[1:] if lost else out), folder / "job" / QUERY / "part.parquet")
    with ActionLog(folder / "job" / "actions.jsonl") as log:
        if acts:
            snapshot = measured(
                Job([Task("lines -> split", None), Task("count -> counts", 100.0)], [(0, 1, 4.0)], 50.0)
            )
            log.snapshot(snapshot)
            log.decision(snapshot, "flink-er", RescalePlan("it is narrow", tasks=(TaskSize(1, 2),)))
            log.result(snapshot, "flink-er", "applied", {"stopped_ms": 240.0})
    sample = {"cpu_s": 0.0, "read": {"lines": 1}, "taken": {COUNT: 1}, "shed": 0, "state_bytes": 100_000_000}
    run = {
        "case": {"topics": ["lines"], "start": {"key_groups": KEY_GROUPS}},
        "capacity": 100.0,
        "capacity_after": 100.0,
        "phases": [asdict(phase) for phase in PHASES],
        "begin_ns": 0,
        "job_begun_ns": -1,
        "queries": {QUERY: {"operator": COUNT, "topics": ["lines"]}},
        "broker_cpu_s": 3.0,
        "exact": [[word, 0, count] for word, count in sorted(seen.items())],
        "injected": [
            {"at_ns": int(at * 1e9), "cpu_s": 0.0, "delivered": {"lines": [rows_due(PHASES, at)]}}
            for at in (0.0, 10.0, 30.0)
        ],
        "samples": [
            {**sample, "at_ns": int(at * 1e9), **({"scaling": SAID} if acts and at > 0.0 else {})}
            for at in (0.0, 15.0, 30.0)
        ],
    }
    (folder / "run.json").write_text(json.dumps(run))
    made = SeenRun(folder)
    return made, written(made)


def test_lag_and_pauses_are_those_of_the_rows(tmp_path: Path) -> None:
    run, rows = kept_run(tmp_path / "zipf-1-1", pause_s=0.4)
    assert lag_over_s(run, rows) == pytest.approx(LATE_UNTIL_S - 10.0)
    assert still_s(run, rows) == pytest.approx(0.4, abs=0.02)
    # Five words of forty, of which one comes every 10 ms, are in a key group, that waits for its turn besides.
    pauses = moved_pauses_s(rows)
    assert len(pauses) == KEY_GROUPS // 2 and 0.4 <= np.percentile(pauses, 99) <= 0.9
    assert len(set(rows.group.tolist())) <= KEY_GROUPS
    assert np.percentile(natural_pauses_s(run, rows), 99) <= 0.45


def test_counts_are_wrong_where_a_row_is_missing(tmp_path: Path) -> None:
    assert wrong_counts(*kept_run(tmp_path / "whole")) == 0
    assert wrong_counts(*kept_run(tmp_path / "lost", lost=True)) == 1


def test_what_was_named_is_read_from_the_log(tmp_path: Path) -> None:
    run, _ = kept_run(tmp_path / "acted")
    seen = acted(run)
    assert seen.is_named and seen.first == ("count -> counts",) and seen.plans == 1 and len(seen.results) == 1
    idle, _ = kept_run(tmp_path / "idle", acts=False)
    assert not acted(idle).is_named and acted(idle).plans == 0
    assert decided_s(run) == pytest.approx(5.0) and decided_s(idle) is None


def verdicts(runs: dict[str, Any]) -> dict[str, bool | None]:
    made = rows(runs)
    assert all(row.real for row in made)
    return {row.row: row.met for row in made}


def test_goals_are_met_by_a_short_pause_and_missed_by_a_long_one(tmp_path: Path) -> None:
    good, rival = kept_run(tmp_path / "zipf-1-1", 0.05), kept_run(tmp_path / "zipf-1-restart-1", 3.0)
    calm = kept_run(tmp_path / "zipf-1-calm-1", acts=False)
    made = verdicts({"zipf-1": [good], "zipf-1-restart": [rival], "zipf-1-calm": [calm]})
    own = ("bottleneck named, zipf-1", "lag over 1 s after the step, zipf-1", "counts that are wrong, zipf-1")
    assert all(made[name] for name in (*own, "longest time without a row, zipf-1"))
    assert made["plans at 0.7 of the capacity, zipf-1"]
    bad = verdicts({"zipf-1": [rival], "zipf-1-restart": [good], "zipf-1-calm": [good]})
    assert bad["longest time without a row, zipf-1"] is False and bad["plans at 0.7 of the capacity, zipf-1"] is False
    assert bad["pause of moved key groups, p99, zipf-1"] is False
    lost = verdicts({"zipf-1": [kept_run(tmp_path / "lost", acts=False, lost=True)]})
    assert lost["counts that are wrong, zipf-1"] is False and lost["bottleneck named, zipf-1"] is False
    # Nothing is said of a rival that was not run.
    assert lost["longest time without a row, zipf-1"] is None


def test_charts_show_every_case(tmp_path: Path) -> None:
    runs = {name: [kept_run(tmp_path / name)] for name in ("zipf-1", "zipf-1-restart")}
    made = {chart.name: chart for chart in charts(runs)}
    assert made.keys() == {"real_lag", "real_rate"}
    for chart in made.values():
        assert [line.name for line in chart.lines] == list(runs)
        assert all(len(line.x) == len(line.y) for line in chart.lines)
    assert np.mean(made["real_rate"].lines[0].y) == pytest.approx(100.0, rel=0.02)


def smoke() -> RealCase:
    ((made, _),) = Wanted(Scale.SMOKE, 1).times(cases)
    return made


@pytest.mark.long("a minute on real parts; test_goals_are_met_by_a_short_pause_and_missed_by_a_long_one")
@pytest.mark.slow
def test_a_small_run_is_rescaled_and_counts_each_row_once(tmp_path: Path) -> None:
    small = replace(smoke(), loads=((1.4, 38.0),))
    run = SeenRun(run_case(small, tmp_path / "yahoo-1").parent)
    found = written(run)
    seen = acted(run)
    assert seen.is_named and any(result["outcome"] == "applied" for result in seen.results)
    assert moved_pauses_s(found) and still_s(run, found) > 0.0
    assert len(run.exact) > CAMPAIGNS and wrong_counts(run, found) == 0
    assert max(sample["instances"][task] for sample in run.samples for task in sample["instances"]) >= 2


@pytest.mark.long("a minute on real parts; test_goals_are_met_by_a_short_pause_and_missed_by_a_long_one")
@pytest.mark.slow
def test_the_rival_stops_and_starts_again_from_a_savepoint(tmp_path: Path) -> None:
    small = restarted(replace(smoke(), loads=((1.4, 38.0),)))
    run = SeenRun(run_case(small, tmp_path / "yahoo-restart-1").parent)
    found = written(run)
    assert moved_pauses_s(found) and wrong_counts(run, found) == 0
    assert not acted(run).results
