"""What is measured of queries that may be shed is what is said: all kept, or half of the rows dropped beside others."""

from pathlib import Path

import pytest

from penstock.benchmarks.armed import __main__ as armed
from penstock.benchmarks.armed import measurement
from penstock.benchmarks.armed.measurement import AGGREGATES, ARMED, BARE, KEPT, SHED, cpu_s
from penstock.benchmarks.nexmark.dataset import write_dataset
from penstock.engine.connectors.nexmark.config import NexmarkConfig


@pytest.mark.parametrize("side", [KEPT, SHED])
@pytest.mark.parametrize("query", AGGREGATES)
def test_aggregates_take_rows_beside_dropped_ones_and_alone(
    query: str, side: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measurement, "_WARM_ROWS", 1_000)
    assert cpu_s(query, "", 10_000, side) > 0


@pytest.mark.parametrize("side", [BARE, ARMED])
def test_a_query_is_armed_or_not(side: str, tmp_path: Path) -> None:
    write_dataset(tmp_path, NexmarkConfig(5_000))
    assert cpu_s("q17", str(tmp_path), 5_000, side) > 0


def test_a_figure_below_its_floor_fails(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    taken = iter([1.0, 1.5, 1.5, 1.0, 1.0, 1.0, 1.0, 1.0])
    monkeypatch.setattr(armed, "measured", lambda module, arguments: {"cpu_s": next(taken)})
    assert armed.main(["--only", "count", "--pairs", "2"]) == 1
    assert capsys.readouterr().out.splitlines()[1].split() == ["count", "0.667", "0.667", "0.667", "0.95"]
    assert armed.main(["--only", "count", "--pairs", "2"]) == 0
