"""Every example runs as it stands, and the README shows one with its real output."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def run(path: Path, folder: Path) -> str:
    ran = subprocess.run([sys.executable, str(path)], cwd=folder, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.mark.parametrize("path", EXAMPLES, ids=[path.stem for path in EXAMPLES])
def test_an_example_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    assert run(path, tmp_path)


def test_the_readme_shows_what_the_example_prints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    code, output = re.findall(r"```(?:python)?\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[:2]
    program = tmp_path / "readme.py"
    program.write_text(code)
    assert sorted(run(program, tmp_path).splitlines()) == sorted(output.splitlines())
    assert code.strip() in (ROOT / "examples" / "hot_bids.py").read_text()
