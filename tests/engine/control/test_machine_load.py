"""What foreign processes take of the cores of task managers."""

from dataclasses import replace

import numpy as np
import pytest

from penstock.engine.control.machine_load import (
    MachineWindow,
    by_host,
    foreign_percent,
    machine_columns,
    memory_limits,
)
from penstock.model.usable_machines import usable_machines
from tests.engine.control.readings import machine


def window(cpu_s: float, busy_s: tuple[float, ...], first: int = 0, host: str = "h") -> MachineWindow:
    """Return a second in which a process, and its cores, were so busy."""
    idle = machine(0, 0, [0.0] * len(busy_s), host, first)
    found = MachineWindow.between(idle, machine(1, cpu_s, busy_s, host, first))
    assert found is not None
    return found


def test_with_a_core_of_its_own_whatever_else_is_busy_there_is_lacking() -> None:
    windows = {"tm-0": window(0.25, (1.0,)), "tm-1": window(0.5, (0.5,), first=1)}
    assert foreign_percent(windows) == pytest.approx({"tm-0": 75.0, "tm-1": 0.0})


def test_those_that_share_cores_share_what_is_left_of_them() -> None:
    shared = {"tm-0": window(0.5, (1.0, 0.5)), "tm-1": window(0.0, (1.0, 0.5))}
    assert foreign_percent(shared) == pytest.approx({"tm-0": 50.0, "tm-1": 50.0})


def test_what_others_do_on_cores_that_are_not_needed_is_no_load() -> None:
    busy = (1.0, 1.0, 0.0, 0.0, 0.5, 0.0)
    assert foreign_percent({"tm-0": window(0.25, busy), "tm-1": window(0.25, busy)}) == {"tm-0": 0.0, "tm-1": 0.0}


def test_hosts_do_not_share_cores_of_one_number() -> None:
    windows = {"tm-0": window(0.0, (1.0,)), "tm-1": window(0.0, (0.0,), host="other")}
    assert foreign_percent(windows) == pytest.approx({"tm-0": 100.0, "tm-1": 0.0})


def test_a_window_is_between_two_readings_of_the_same_cores() -> None:
    assert MachineWindow.between(None, machine(1)) is None
    assert MachineWindow.between(machine(1), machine(1)) is None
    assert MachineWindow.between(machine(0, 0, [0.0]), machine(1, 0, [0.0], first=1)) is None


def test_the_load_of_a_machine_is_what_is_foreign_and_what_its_instances_take() -> None:
    windows = {"tm-0": window(0.9, (1.0,)), "caller": window(0.5, (1.0,), first=1)}
    columns = machine_columns(["tm-0", "tm-1"], ["caller"], windows, {"tm-0": 30.0}, {"tm-0": 0.5, "tm-1": 2.0})
    assert columns.name == ("tm-0", "tm-1", "caller") and columns.cores.tolist() == [1.0, 1.0, 0.0]
    # Of its own 90% only 30% are of instances that stay. Nobody has read of the second, and the caller takes none.
    np.testing.assert_allclose(columns.cpu_percent, [40.0, np.nan, np.nan])  # type: ignore[arg-type]
    np.testing.assert_allclose(columns.heartbeat_age_s, [0.5, 2.0, np.nan])  # type: ignore[arg-type]
    assert columns.rest_percent is not None and columns.rest_percent[:1].tolist() == [0.0]
    assert columns.memory_limit_bytes is None and columns.network_data_bytes is None
    assert machine_columns(["tm-0"], [], {}, {}, {}).cpu_percent is None


def held(resident: int, memory_bytes: float, host: str = "h", group: str = "") -> MachineWindow:
    """Return a second in which a process had so much memory, of so much that its group may have."""
    before, after = (
        replace(machine(at, host=host), resident_bytes=resident, memory_bytes=memory_bytes, memory_group=group)
        for at in (0, 1)
    )
    found = MachineWindow.between(before, after)
    assert found is not None
    return found


def test_those_of_one_host_or_control_group_share_its_memory() -> None:
    windows = {
        "tm-0": held(300, 1_000.0),
        "tm-1": held(100, 1_000.0),
        "tm-2": held(100, 500.0, group="7"),
        "tm-3": held(100, 1_000.0, host="other"),
    }
    found = memory_limits(windows)
    # 600 are free on the first host, 300 for each of two; a container has what it may have, whoever is beside it.
    assert found == {"tm-0": 600.0, "tm-1": 400.0, "tm-2": 500.0, "tm-3": 1_000.0}
    columns = machine_columns([*windows, "tm-4"], [], windows, {}, {})
    assert columns.memory_limit_bytes is not None
    np.testing.assert_array_equal(columns.memory_limit_bytes, [*found.values(), np.nan])
    assert usable_machines(columns, 10.0).all()
    # What processes share counts in each of them: together they may seem to have more than there is, and go on.
    above = {"tm-0": held(900, 1_000.0), "tm-1": held(300, 1_000.0)}
    assert memory_limits(above) == {"tm-0": 900.0, "tm-1": 300.0}
    assert usable_machines(machine_columns([*above], [], above, {}, {}), 10.0).all()
    assert all(map(np.isnan, memory_limits({"tm-0": held(1, 9.0), "tm-1": held(1, np.nan)}).values()))


def test_neighbours_stand_together() -> None:
    hosts = {"a": machine(1, host="x"), "b": machine(1, host="y"), "c": machine(1, host="x")}
    assert by_host(["a", "b", "c", "d"], hosts) == ["a", "c", "b", "d"]
