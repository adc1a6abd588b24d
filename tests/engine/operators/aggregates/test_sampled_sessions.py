"""Sessions of a sample of keys against all sessions: those that leave are whole, at any rates, cuts and restarts."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.core.contract import MAIN, Emission, Operator
from penstock.engine.core.elements import END_OF_TIME_US, Batch
from penstock.engine.operators.aggregates.sampled_sessions import SampledSessions
from penstock.engine.operators.aggregates.session_aggregate import SessionAggregate
from penstock.model.errors import SchemaError
from penstock.model.keep_rates import STEPS
from penstock.model.windows import Session
from penstock.shedding.key_sampling import key_steps
from penstock.state.keys.batch_keys import KeyCodec
from tests.engine.dataflow.dozing import MANY_CUTS, restarting
from tests.engine.operators.aggregates.aggregate_support import (
    FIELDS,
    KEYS,
    STREAM,
    Row,
    aggregate_spec,
    aggregated,
    as_rows,
    cuts,
    streams,
    to_batch,
)
from tests.engine.operators.aggregates.test_session_aggregate import DELAY, GAP, SessionModel
from tests.engine.support import open_operator

Key = tuple[Any, ...]
LIMITS = st.lists(st.sampled_from([0, 8, 20, 32, 32, 50, 64]), min_size=1, max_size=30)
FAST = settings(max_examples=70, deadline=None, derandomize=True)


def sampled_spec(keys: Sequence[str]) -> Any:
    return replace(aggregate_spec(keys, Session(GAP)), sampler=1)


def run(
    operator: Operator, steps: Sequence[list[Row] | int], limits: Sequence[int], *, seed: int = 0
) -> dict[tuple[Any, ...], int]:
    """Return the sessions that leave, with the steps of the rate that they say; batches have these limits in turn."""
    open_operator(operator, sampling_seed=seed)
    emitted: list[Emission] = []
    place = 0
    for step in [*steps, END_OF_TIME_US]:
        if isinstance(step, int):
            emitted += operator.on_watermark(step)
        elif step:
            limit = limits[place % len(limits)]
            place += 1
            # The number of the sampler is 1, so the first byte is another one's.
            emitted += operator.process(0, Batch(to_batch(step), keys=bytes([3, limit]) if limit < STEPS else b""))
        assert operator.context.counters.balanced()
    found: dict[tuple[Any, ...], int] = {}
    for output, batch in emitted:
        if output == MAIN:
            for row in as_rows([batch.rows]):
                assert row not in found
                found[row] = round(batch.keep * STEPS)
    return found


def step_of(keys: Sequence[str], key: Key, seed: int = 0) -> int:
    """Return the step of a key by the definition."""
    types = [FIELDS.field(name).type for name in keys]
    columns = [to_batch([Row(**{"k": None, "s": None, "v": None, "t": 0, **dict(zip(keys, key, strict=True))})])]
    hashes = KeyCodec(types).hash([columns[0].column(name) for name in keys], 1)
    return int(key_steps(seed, hashes)[0])


def limits_of(steps: Sequence[list[Row] | int], limits: Sequence[int]) -> list[tuple[Row, int]]:
    """Return each row with the limit of its batch."""
    batches = [step for step in steps if not isinstance(step, int) and step]
    return [(row, limits[at % len(limits)]) for at, step in enumerate(batches) for row in step]


@FAST
@given(st.data(), KEYS, LIMITS, st.integers(0, 2**40))
def test_what_leaves_is_whole_and_in_the_sample_that_it_says(
    data: st.DataObject, keys: tuple[str, ...], limits: list[int], seed: int
) -> None:
    if not keys:
        return
    rows = data.draw(streams(delay=DELAY))
    steps = data.draw(cuts(rows, lambda seen: max(row.t for row in seen) - DELAY))
    spec = sampled_spec(keys)
    operator = restarting(lambda: SampledSessions(spec, STREAM, "w"), data.draw(MANY_CUTS), *keys)
    found = run(operator, steps, limits, seed=seed)
    model = SessionModel(keys).run(steps)
    everything = limits_of(steps, limits)
    least = min((limit for _, limit in everything), default=STEPS)
    remaining = dict(found)
    for key, members in model.open + model.over:
        session = (*key, min(row.t for row in members), max(row.t for row in members) + GAP, *aggregated(members))
        step = step_of(keys, key, seed)
        said = remaining.pop(session, None)
        # Every key of the least rate is there; what is there has the rate of its rows, or a lesser one.
        assert said is not None or step >= least
        if said is not None:
            own = [limit for row, limit in everything if any(row is member for member in members)]
            assert step < said <= min(own)
    assert not remaining, "sessions that nobody would have without shedding"
    assert not model.late


@FAST
@given(st.data(), LIMITS, st.integers(0, 2**40), st.integers(0, 2**40))
def test_the_rate_of_a_session_does_not_depend_on_which_keys_stay(
    data: st.DataObject, limits: list[int], seed: int, other: int
) -> None:
    """So the chance that a session leaves is the rate that it says, and 1 / rate its weight."""
    rows = data.draw(streams(delay=DELAY))
    steps = data.draw(cuts(rows, lambda seen: max(row.t for row in seen) - DELAY))
    one, two = (run(SampledSessions(sampled_spec(["k"]), STREAM, "w"), steps, limits, seed=by) for by in (seed, other))
    for session in one.keys() & two.keys():
        assert one[session] == two[session]


@FAST
@given(st.data(), st.sampled_from([0, 16, 40, 64]), st.integers(0, 2**40))
def test_at_one_rate_exactly_the_sessions_of_the_keys_that_stay_leave(
    data: st.DataObject, limit: int, seed: int
) -> None:
    rows = data.draw(streams(delay=DELAY))
    steps = data.draw(cuts(rows, lambda seen: max(row.t for row in seen) - DELAY))
    found = run(SampledSessions(sampled_spec(["k"]), STREAM, "w"), steps, [limit], seed=seed)
    expected = [item for item in SessionModel(["k"]).run(steps).results() if step_of(["k"], (item[0],), seed) < limit]
    assert sorted(found, key=repr) == sorted(expected, key=repr)
    assert set(found.values()) <= {limit}


def test_what_was_partly_dropped_is_let_go_and_the_rows_are_in_the_account() -> None:
    keys = {key: step_of(["k"], (key,)) for key in range(40)}
    rare = next(key for key, step in keys.items() if step < 16)
    often = next(key for key, step in keys.items() if 32 <= step < 48)
    operator = SampledSessions(sampled_spec(["k"]), STREAM, "w")
    times = [0, 3, 6, 30]
    steps: list[list[Row] | int] = [[Row(key, "", 1, time) for key in (rare, often)] for time in times]
    # The second row of the key that stays more often is dropped: what is left of its first session would be two.
    found = run(operator, steps, [48, 32, 48, 48])
    assert {(row[0], row[1], row[3], said) for row, said in found.items()} == {
        (rare, 0, 3, 32),
        (rare, 30, 1, 48),
        (often, 30, 1, 48),
    }
    assert (operator.context.counters.shed, operator.context.counters.folded) == (1, 7)


def test_state_of_a_sample_is_refused_by_what_cannot_say_so_until_its_sessions_are_over() -> None:
    sampled = open_operator(SampledSessions(sampled_spec(["k"]), STREAM, "w"))
    list(sampled.process(0, Batch(to_batch([Row(1, "", 1, 0), Row(2, "", 1, 100)]), keys=bytes([3, 32]))))
    notes = dict(sampled.notes())
    whole = SessionAggregate(aggregate_spec(["k"], Session(GAP)), STREAM, "w")
    with pytest.raises(SchemaError, match="dropped by their keys"):
        whole.open(replace(sampled.context, restored=[notes]))
    list(sampled.on_watermark(500))
    list(sampled.process(0, Batch(to_batch([Row(1, "", 1, 900)]))))
    whole = SessionAggregate(aggregate_spec(["k"], Session(GAP)), STREAM, "w")
    whole.open(replace(sampled.context, restored=[dict(sampled.notes())]))
