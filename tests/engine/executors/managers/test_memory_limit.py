"""The memory that a process may use, by the files of control groups."""

from pathlib import Path

import pytest

from penstock.engine.executors.managers.memory_limit import MemoryLimit, memory_limit

HOST = 8 << 30


def file(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("line", "folder", "name"), [("0::", ".", "memory.max"), ("4:memory:", "memory", "memory.limit_in_bytes")]
)
def test_the_least_limit_from_the_own_group_up_counts(line: str, folder: str, name: str, tmp_path: Path) -> None:
    own = file(tmp_path / "own", f"1:cpu:/elsewhere\n{line}/pod/job\n")
    groups = tmp_path / "groups"
    pod = file(groups / folder / "pod" / name, f"{2 << 30}\n").parent
    file(pod / "job" / name, f"{3 << 30}\n")
    assert memory_limit(groups, own, HOST) == MemoryLimit(float(2 << 30), str(pod.stat().st_ino))


def test_a_container_sees_its_limit_where_its_groups_begin(tmp_path: Path) -> None:
    own = file(tmp_path / "own", "0::/the/path/on/the/host\n")
    groups = file(tmp_path / "groups" / "memory.max", f"{1 << 30}\n").parent
    assert memory_limit(groups, own, HOST) == MemoryLimit(float(1 << 30), str(groups.stat().st_ino))


@pytest.mark.parametrize("text", ["max\n", f"{(1 << 63) - 4096}\n", ""])
def test_without_a_limit_it_is_the_memory_of_the_host(text: str, tmp_path: Path) -> None:
    own = file(tmp_path / "own", "0::/job\n")
    groups = tmp_path / "groups"
    file(groups / "job" / "memory.max", text)
    assert memory_limit(groups, own, HOST) == memory_limit(groups, tmp_path / "no file", HOST) == MemoryLimit(HOST)
    assert memory_limit().bytes > 0
