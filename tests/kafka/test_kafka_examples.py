"""The examples that need a broker run as they stand."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("kafka_*.py"))


def run(path: Path, folder: Path, kafka: str) -> str:
    ran = subprocess.run(
        [sys.executable, path],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "KAFKA_BOOTSTRAP": kafka},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.mark.parametrize("path", EXAMPLES, ids=[path.stem for path in EXAMPLES])
def test_an_example_runs(kafka: str, path: Path, tmp_path: Path) -> None:
    assert run(path, tmp_path, kafka)
    assert len(path.read_text().split('"""')[1].splitlines()) <= 6


@pytest.mark.long("both pipelines twice; test_an_example_runs has them once")
def test_two_pipelines_find_what_one_does(kafka: str, tmp_path: Path) -> None:
    two = run(ROOT / "examples" / "kafka_two_pipelines.py", tmp_path, kafka)
    one = run(ROOT / "examples" / "hot_bids.py", tmp_path, kafka)
    assert sorted(two.splitlines()) == sorted(one.splitlines())
