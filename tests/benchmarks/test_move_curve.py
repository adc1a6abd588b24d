"""The curve of a move: ages are counted by steps, figures stand for both ways, and the picture has both curves."""

import json
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.benchmarks.cluster import ages
from penstock.benchmarks.cluster.__main__ import main
from penstock.benchmarks.cluster.ages import (
    COUNTED_ROWS,
    MOVED,
    OTHERS,
    SLOT_NS,
    STEPS,
    AgesOverTime,
    quantile_ms,
    read_ages,
    steps_of,
)
from penstock.benchmarks.cluster.move_chart import Span, draw
from penstock.benchmarks.cluster.move_figures import Curve, line
from penstock.model.key_groups import assign


@given(st.lists(st.floats(0.1, 1e6), min_size=1, max_size=200), st.sampled_from([0.5, 0.9, 0.99]))
def test_a_quantile_of_steps_is_near_that_of_the_ages(ages_ms: list[float], share: float) -> None:
    counts = np.bincount(steps_of(np.array(ages_ms)), minlength=STEPS)
    found, exact = quantile_ms(counts, share), sorted(ages_ms)[int(np.ceil(share * len(ages_ms))) - 1]
    assert found is not None and abs(np.log10(found / exact)) <= 0.11
    assert quantile_ms(np.zeros(STEPS, np.int64), share) is None


@pytest.mark.parametrize("at_a_time", [1, 100, COUNTED_ROWS])
def test_rows_are_counted_by_when_they_came_and_how_old_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_a_time: int
) -> None:
    now_ns = 7 * SLOT_NS
    monkeypatch.setattr(ages, "_now_ns", lambda: now_ns)
    schema = pa.schema([("k", pa.int64()), ("due_ns", pa.int64()), ("weight", pa.int8())])
    writer = AgesOverTime(tmp_path, 1, assign(128, 2)).open(schema, 0, 1)
    for slot, age_ms in ((0, 1.0), (3, 100.0)):
        now_ns = (7 + slot) * SLOT_NS
        due_ns = [now_ns - int(age_ms * 1e6)] * at_a_time
        for first in range(0, 300, at_a_time):
            columns = [pa.array(range(first, first + at_a_time)), pa.array(due_ns), pa.array([1, -1] * at_a_time)]
            arrays = [column.cast(field.type)[:at_a_time] for column, field in zip(columns, schema, strict=True)]
            writer.write(pa.record_batch(arrays, schema=schema))
    writer.close()
    slots, counts = read_ages(tmp_path)
    assert slots.tolist() == [7, 8, 9, 10]
    there = counts.sum(axis=(1, 2)).tolist()
    assert there[1:3] == [0, 0] and there[0] == there[3] > 0
    assert counts[0].sum(axis=0).nonzero()[0].tolist() == steps_of(np.array([1.0])).tolist()
    assert counts[3].sum(axis=0).nonzero()[0].tolist() == steps_of(np.array([100.0])).tolist()
    assert counts[:, OTHERS].sum() > 0 and counts[:, MOVED].sum() > 0


def test_the_picture_has_a_line_for_each_curve_and_a_name_for_each_span() -> None:
    ages = {"p50": [(0.0, 1.0), (1.0, 20.0)], "p99": [(0.0, 4.0), (1.0, 300.0)]}
    marks = [Span("checkpoint", 0.1, 0.3), Span("checkpoint", 0.6, 0.8)]
    text = draw(ages, {"keys that stay": [(0.0, 5e4), (1.0, 4e4)]}, [Span("a move", 0.2, 0.4)], marks)
    root = ET.fromstring(text)
    tags = [item.tag.rpartition("}")[2] for item in root.iter()]
    assert tags.count("path") == 3
    told = {item.text for item in root.iter() if item.text}
    assert {"a move", "p50", "p99", "keys that stay", "rows a second", "checkpoint"} <= told


def test_rates_and_ages_are_by_those_of_the_time_before() -> None:
    """Rows of other keys are late for a second of a move, and of those due for two more none comes until its end."""
    seconds = np.arange(0, 60, 0.1)
    counts = np.zeros((len(seconds), 2, STEPS), np.int64)
    young, old = steps_of(np.array([10.0, 1000.0]))
    counts[:, OTHERS, young] = counts[:, MOVED, young] = 100
    # A checkpoint: for a second nothing comes, and then what was due.
    held, caught_up = (seconds >= 20) & (seconds < 21), (seconds >= 21) & (seconds < 22)
    counts[held], counts[caught_up, OTHERS, old] = 0, 100
    late = (seconds >= 43) & (seconds < 44)
    counts[late, OTHERS, young], counts[late, OTHERS, old] = 0, 100
    counts[(seconds >= 44) & (seconds < 46)] = 0
    curve, alike = Curve(seconds, counts), [Span("alike", 30.0, 35.0)]
    figures = line(curve, Span("move", 40.0, 46.0), Span("before", 10.0, 40.0), alike)
    assert figures["took_s"] == pytest.approx(6.0)
    assert figures["others_rate"] == pytest.approx(4 / 6, abs=0.02)
    assert figures["others_least"] == pytest.approx(0.8) and figures["least_before"] == pytest.approx(0.9, abs=0.02)
    assert figures["least_by_least"] == pytest.approx(8 / 9, abs=0.02)
    assert figures["others_p99"] == pytest.approx(1.0) and figures["p99_by_alike"] == pytest.approx(100.0)
    stopped = line(curve, Span("stop and start", 44.0, 46.0), Span("before", 10.0, 40.0), alike)
    assert stopped["others_rate"] == 0.0 and stopped["others_least"] < 0.9


@pytest.mark.long("two minutes of task managers; the figures themselves are measured by hand")
@pytest.mark.slow
@pytest.mark.parametrize("lead", [(), ("--lead-s", "0.1")])
def test_both_ways_have_figures_and_a_curve(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], lead: Sequence[str]
) -> None:
    picture = tmp_path / "move.svg"
    given_ = ["--keys", "40000", "--load", "0.3", "--quiet-s", "4", "--picture", str(picture), *lead]
    assert main(["--only", "move", *given_, "--json"]) == 0
    lines = json.loads(capsys.readouterr().out)["move"]
    assert [line["way"] for line in lines] == ["move", "stop and start"]
    assert all(line["took_s"] > 0 and line["others_p99"] > 0 and 0 <= line["others_rate"] < 2 for line in lines)
    assert lines[0]["moved_mb"] > 0 and lines[0]["pause_p99_ms"] >= lines[0]["pause_p50_ms"] > 0
    assert lines[0]["checkpoints"] in (0, 1)
    assert lines[1]["all_p99"] > lines[0]["all_p99"]
    ET.fromstring(picture.read_text())
