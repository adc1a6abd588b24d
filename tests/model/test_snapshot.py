"""Snapshots and decisions: frozen, checked where they are made, the same after a journey as JSON or bytes."""

import json
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from penstock.model import plan
from penstock.model.columns import Bools, Columns, Floats, Ints, Names, measured
from penstock.model.snapshot import GROUPS, ClusterSnapshot, InstanceColumns, MachineColumns, TaskColumns
from penstock.model.snapshot_bytes import from_bytes, to_bytes

FIGURES = st.one_of(st.just(float("nan")), st.floats(0, 1e15), st.integers(0, 2**40).map(float))


@st.composite
def snapshots(draw: st.DrawFn) -> ClusterSnapshot:
    """Snapshots whose groups all have as many rows, so that every reference is to one."""
    rows = draw(st.integers(1, 4))

    def column(kind: Any) -> Any:
        if kind == Names:
            return tuple(draw(st.text(max_size=3)) for _ in range(rows))
        if kind == Ints:
            return draw(arrays(np.int32, rows, elements=st.integers(0, rows - 1)))
        if kind == Bools:
            return draw(arrays(np.bool_, rows))
        if kind == Floats | None and draw(st.booleans()):
            return None
        return draw(arrays(np.float64, rows, elements=FIGURES))

    groups = {name: kind(**{field.name: column(field.type) for field in fields(kind)}) for name, kind in GROUPS.items()}
    return ClusterSnapshot(draw(st.integers(0, 2**40)), draw(st.floats(0, 1e9)), draw(st.floats(1e-3, 1e4)), **groups)


@given(snapshots())
def test_a_snapshot_is_the_same_after_json_and_after_bytes(snapshot: ClusterSnapshot) -> None:
    plain = snapshot.as_dict()
    assert ClusterSnapshot.from_dict(json.loads(json.dumps(plain, allow_nan=False))).as_dict() == plain
    assert from_bytes(to_bytes(snapshot)).as_dict() == plain


def test_bytes_that_were_cut_are_refused() -> None:
    packed = to_bytes(ClusterSnapshot(1, 5.0, 5.0, machines=MachineColumns(("a", "b"), [1.0, 2.0])))
    for length in range(0, len(packed), 8):
        with pytest.raises(ValueError, match="snapshot"):
            from_bytes(packed[:length])


def test_another_schema_is_refused() -> None:
    plain = ClusterSnapshot(1, 5.0, 5.0).as_dict()
    with pytest.raises(ValueError, match="schema 99; this version reads 4"):
        ClusterSnapshot.from_dict(plain | {"schema": 99})
    with pytest.raises(ValueError, match="'tasks'"):
        ClusterSnapshot.from_dict({key: value for key, value in plain.items() if key != "tasks"})
    with pytest.raises(ValueError, match=r"missing \['cores'\], unknown \['kernels'\]"):
        MachineColumns.from_dict({**without(MachineColumns(("a",), [1.0]), "cores"), "kernels": [1.0]})
    packed = bytearray(to_bytes(ClusterSnapshot(1, 5.0, 5.0)))
    packed[4] = 99
    with pytest.raises(ValueError, match="schema 99"):
        from_bytes(bytes(packed))


def test_what_an_earlier_version_did_not_have_was_not_measured() -> None:
    earlier = without(MachineColumns(("a",), [1.0], cpu_percent=[3.0], rest_percent=[2.0]), "rest_percent")
    read = MachineColumns.from_dict(earlier)
    assert read.rest_percent is None and read.cpu_percent is not None and read.cpu_percent.tolist() == [3.0]


def test_what_does_not_fit_together_is_refused() -> None:
    with pytest.raises(ValueError, match=r"differ in length: {'name': 1, 'cores': 2}"):
        MachineColumns(("a",), [1.0, 2.0])
    with pytest.raises(ValueError, match="one dimension"):
        MachineColumns(("a",), [[1.0]])
    with pytest.raises(ValueError, match=r"instances\.task names rows that the 0 tasks do not have"):
        ClusterSnapshot(1, 5.0, 5.0, instances=InstanceColumns([0], [0], [0], [True]))
    with pytest.raises(ValueError, match="longer than 0 s"):
        ClusterSnapshot(1, 5.0, 0.0)


def test_nothing_can_be_changed() -> None:
    given = np.array([2.0])
    machines = MachineColumns(("a",), given)
    given[0] = 3.0
    assert machines.cores[0] == 2.0
    with pytest.raises(ValueError, match="read-only"):
        machines.cores[0] = 4.0


def test_what_was_measured() -> None:
    some = np.array([1.0, float("nan"), 3.0])
    assert measured(some, None) is None
    assert measured(some, np.array([float("nan"), 2.0, 3.0])).tolist() == [False, False, True]  # type: ignore[union-attr]
    assert len(TaskColumns.none()) == 0 and TaskColumns.none().target_rate is None


def test_decisions_as_plain_data() -> None:
    shed = plan.ShedPlan({0: 0.5}, {}, (0.5,), "overload", moves=(plan.Move(3, 1, flagged=True),))
    assert plan.as_dict(shed)["kind"] == "ShedPlan" and plan.as_dict(shed)["moves"][0]["machine"] == 1
    assert plan.as_dict(plan.NoChange("not measured: cpu")) == {
        "kind": "NoChange",
        "reason": "not measured: cpu",
        "numbers": {},
    }


def without(columns: Columns, name: str) -> dict[str, Any]:
    return {key: value for key, value in columns.as_dict().items() if key != name}
