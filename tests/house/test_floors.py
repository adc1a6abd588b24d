"""Imports run downwards only: the contract in setup.cfg, checked by import-linter."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_imports_run_downwards() -> None:
    linter = Path(sys.executable).parent / "lint-imports"
    ran = subprocess.run([linter, "--no-logo"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
