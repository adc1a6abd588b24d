"""The tests under settings that a seed draws (docs/design/fault-tests.md M3): ``pytest --random-settings SEED``.

Jobs that are started by `Job.run` or `Job.start` get what their test leaves at the default. The seed and what it drew
stand in the report's header. ``@pytest.mark.fixed_settings`` keeps the defaults where a test is about them, or those
that it names: ``fixed_settings("parallelism")``.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pytest

from penstock.dsl import job as front_door
from penstock.model.config import LoopOptions
from penstock.runs.run_options import RunOptions

VARIABLE = "PENSTOCK_RANDOM_SETTINGS"
MARK = "fixed_settings"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.addoption("--random-settings", metavar="SEED", type=int, help="run jobs with settings drawn from a seed")


def pytest_configure(config: pytest.Config) -> None:
    """Draw the settings, if a seed is given here or in the environment."""
    config.addinivalue_line("markers", f"{MARK}(*options): random settings leave these options alone, or all")
    seed = config.getoption("--random-settings")
    if seed is None and VARIABLE in os.environ:
        seed = int(os.environ[VARIABLE])
    if seed is not None:
        config.pluginmanager.register(RandomSettings(seed), "random-settings")


_applied: dict[str, Any] = {}
"""What the test that runs now gets."""


def with_random(**given: Any) -> LoopOptions:
    """Return these loop options, the others as they were drawn: for tests that make a job without `Job.run`."""
    drawn = {name: value for name, value in _applied.items() if name in LoopOptions.__dataclass_fields__}
    return LoopOptions(**{**drawn, **given})


class RandomSettings:
    """What one seed drew, put in place for each test that does not refuse."""

    def __init__(self, seed: int) -> None:
        """Draw."""
        self._seed = seed
        self._drawn = draw(seed)

    def pytest_report_header(self) -> str:
        """Say the seed and what it drew."""
        drawn = ", ".join(f"{name}={value}" for name, value in self._drawn.items())
        return f"random settings: --random-settings {self._seed} ({drawn})"

    @pytest.fixture(autouse=True)
    def _random_settings(self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        marks = list(request.node.iter_markers(MARK))
        fixed = {name for mark in marks for name in mark.args}
        if not any(not mark.args for mark in marks):
            settings = {name: value for name, value in self._drawn.items() if name not in fixed}
            monkeypatch.setattr(front_door, "make_options", _with(settings, front_door.make_options))
            _applied.update(settings)
        yield
        _applied.clear()

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say it again below failures, for ``-q`` leaves the header out."""
        if terminalreporter.stats.get("failed") or terminalreporter.stats.get("error"):
            terminalreporter.write_line(self.pytest_report_header())


def draw(seed: int) -> dict[str, Any]:
    """Return the settings of a seed: extremes and what lies between them."""
    rng = np.random.default_rng(seed)

    def one_of(*values: Any) -> Any:
        return values[int(rng.integers(len(values)))]

    return {
        "batch_rows": one_of(1, 2, 7, 64, 1_000, 131_072),
        "channel_bytes": one_of(1, 500, 20_000, 8 << 20),
        "linger_ms": one_of(0, 1, 10),
        "key_groups": one_of(4, 16, 128, 1_000),
        "parallelism": one_of(1, 2, 3, 4),
        "state_bytes": one_of(None, 30_000, 1 << 20, 3 << 20),
        "checkpoint_interval": one_of("1ms", "20ms", "300ms", "10s"),
    }


def _with(
    settings: Mapping[str, Any], make: Callable[[str | None, Mapping[str, Any]], RunOptions]
) -> Callable[[str | None, Mapping[str, Any]], RunOptions]:
    def made(name: str | None, options: Mapping[str, Any]) -> RunOptions:
        added = {key: value for key, value in settings.items() if key not in options}
        if options.get("checkpoint_dir") is None:
            added.pop("checkpoint_interval", None)
        return make(name, {**added, **options})

    return made
