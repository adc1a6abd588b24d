"""The cores that a process may use."""

import os
from pathlib import Path

import pytest

from penstock.runs.cores import usable_cores


@pytest.fixture
def affinity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(8)))


def groups(tmp_path: Path, own: str, **files: str) -> tuple[Path, Path]:
    (tmp_path / "own").write_text(own)
    for name, text in files.items():
        path = tmp_path / "root" / name.replace("__", "/").replace("_", ".", 1)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "root", tmp_path / "own"


def test_without_a_quota_it_is_the_affinity(affinity: None, tmp_path: Path) -> None:
    assert usable_cores(tmp_path / "none", tmp_path / "none") == 8
    assert usable_cores(*groups(tmp_path, "0::/\n", cpu_max="max 100000\n")) == 8


@pytest.mark.parametrize(("quota", "cores"), [("250000", 2), ("50000", 1), ("1600000", 8)])
def test_a_quota_counts_in_whole_cores(affinity: None, tmp_path: Path, quota: str, cores: int) -> None:
    assert usable_cores(*groups(tmp_path, "0::/\n", cpu_max=f"{quota} 100000\n")) == cores


def test_of_nested_groups_the_smallest_counts(affinity: None, tmp_path: Path) -> None:
    root, own = groups(tmp_path, "0::/a/b\n", a__cpu_max="300000 100000\n", a__b__cpu_max="500000 100000\n")
    assert usable_cores(root, own) == 3


def test_groups_of_version_1_are_read(affinity: None, tmp_path: Path) -> None:
    root, own = groups(tmp_path, "4:cpu,cpuacct:/job\n")
    folder = root / "cpu" / "job"
    folder.mkdir(parents=True)
    (folder / "cpu.cfs_quota_us").write_text("400000\n")
    (folder / "cpu.cfs_period_us").write_text("100000\n")
    assert usable_cores(root, own) == 4
    (folder / "cpu.cfs_quota_us").write_text("-1\n")
    assert usable_cores(root, own) == 8
