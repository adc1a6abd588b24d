"""Libraries that a test hides from the process it runs in, whatever tests before it have imported."""

import sys

import pytest


def hide(monkeypatch: pytest.MonkeyPatch, library: str) -> None:
    """Let every import of a library fail, its submodules' too, until the test ends.

    A submodule that is in ``sys.modules`` is found there without a look at its package, so those must go as well.
    """
    for name in [name for name in sys.modules if name.startswith(f"{library}.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, library, None)
