"""Any split into batches, parallelism and interleaving gives the same answer for rows within the watermark delay.

The loop is stepped by hand, on a clock that only the test moves and under CPU shares that change at random, with
channels so small that producers wait all along. Answers are held against models written in plain Python.
"""

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.engine.core.elements import END_OF_TIME_US
from tests.end_to_end.interleaving_support import (
    DELAY_US,
    PLAIN,
    SIZE_US,
    Dealt,
    Event,
    Inputs,
    Pipeline,
    Setting,
    embed,
    events,
    run,
    settings_of,
    step_until_quiet,
    table,
    tuples,
)
from tests.end_to_end.pipelines import PIPELINES, STREAMED, Model, Settled, grouped, tumbling
from tests.engine.support import ManualClock


@pytest.mark.parametrize(("pipeline", "model"), PIPELINES, ids=lambda item: item.__name__)
@settings(max_examples=8, derandomize=True, deadline=None, database=None)
@given(seed=st.integers(0, 1 << 32))
def test_interleaving_changes_no_answer(
    pipeline: Pipeline, model: Model, seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    chance = Random(seed)
    rows, others = events(chance, chance.randint(0, 80)), events(chance, chance.randint(0, 80))
    expected = model(rows, others)
    folder = tmp_path_factory.mktemp("interleaved")
    for setting in (PLAIN, settings_of(chance), settings_of(chance)):
        found, ledger = run(pipeline, rows, others, setting, folder)
        assert (found, ledger.late) == (expected, 0), setting


@settings(max_examples=30, derandomize=True, deadline=None, database=None)
@given(seed=st.integers(0, 1 << 32))
def test_late_rows_are_missing_from_their_window_and_nowhere_else(
    seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    chance = Random(seed)
    rows = events(chance, chance.randint(20, 100), disorder_us=6 * DELAY_US)
    kept: list[ps.Result] = []

    def pipeline(inputs: Inputs, rows: Sequence[Event], others: Sequence[Event]) -> ps.Stream:
        counts = tumbling(inputs, rows, others)
        kept.append(counts.side_output("late").collect())
        return counts.select("key", "window_start", "n")

    expected = {group: len(members) for group, members in grouped(rows, SIZE_US, SIZE_US).items()}
    folder = tmp_path_factory.mktemp("late")
    for setting in (settings_of(chance), settings_of(chance)):
        found, ledger = run(pipeline, rows, (), setting, folder)
        late = tuples(kept[-1].table())
        assert ledger.late == late.total()
        assert late <= tuples(table(rows))
        counted: Counter[tuple[Any, ...]] = Counter()
        for key, start, n in found:
            counted[key, start] += n
        for _, key, _, at in late.elements():
            counted[key, at // SIZE_US * SIZE_US] += 1
        assert counted == expected, setting


@pytest.mark.parametrize(("pipeline", "model", "settled"), STREAMED, ids=lambda item: item.__name__)
@settings(max_examples=6, derandomize=True, deadline=None, database=None)
@given(seed=st.integers(0, 1 << 32))
def test_a_sink_has_what_the_rows_read_so_far_allow(
    pipeline: Pipeline, model: Model, settled: Settled, seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    chance, folder = Random(seed), tmp_path_factory.getbasetemp()
    data = events(chance, chance.randint(1, 80)), events(chance, chance.randint(1, 80))
    setting = Setting("dealt", chance.randint(1, 3), chance.choice([1, 7, 40, 300]), 100, 10, chance.getrandbits(32))
    job, clock = ps.Job(), ManualClock()
    inputs = Inputs(job, setting, folder)
    result = pipeline(inputs, *data).collect()
    embedded = embed(job, setting, folder, clock)
    for _ in range(4):
        for dealt in inputs.dealt:
            for tap in dealt.taps:
                # A partition that has given all its rows ends, and then holds no watermark back.
                tap.allowed = max(tap.given, chance.randrange(len(tap.rows) + 1) if len(tap.rows) else 0)
        step_until_quiet(embedded, clock)
        taps = [tap for dealt in inputs.dealt for tap in dealt.taps]
        watermark_us = min((tap.reached_us for tap in taps if tap.given < len(tap.rows)), default=END_OF_TIME_US)
        read = [
            [row for tap in dealt.taps for row in tap.rows[: tap.given]] for dealt in [*inputs.dealt, Dealt((), chance)]
        ]
        expected = Counter(dict(item for item in model(read[0], read[1]).items() if settled(item[0], watermark_us)))
        assert tuples(result.table()) == expected, setting
