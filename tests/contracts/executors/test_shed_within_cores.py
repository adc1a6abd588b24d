"""A job that may use half a core sheds what does not fit into that, and not only what does not fit into a whole one."""

from pathlib import Path

import pytest

import penstock as ps
from tests.contracts.executors.metered import until
from tests.contracts.executors.test_overload import Peak, dear

CORES = 0.5
ROWS_PER_S = 700
"""Of a millisecond of a core each: they fit into a core."""


@pytest.mark.long("half a minute of overload; tests/shedding/test_useful_time.py has the arithmetic")
def test_what_does_not_fit_into_the_cores_of_a_job_is_shed(tmp_path: Path) -> None:
    job = ps.Job()
    rows = ps.read(Peak(ROWS_PER_S, peak_s=1e9), job=job).name("due").map_batches(dear).name("dear")
    rows.write_black_hole().name("out").with_min_accuracy(0.2, columns=False)
    control = ps.Control(shed="qod", scale="sage", mode="act", cores=CORES, first_cores=CORES)
    handle = job.start(
        "half",
        control=control,
        executor="processes",
        task_managers=1,
        parallelism=1,
        batch_rows=20,
        directory=tmp_path / "job",
        checkpoint_dir=tmp_path / "checkpoints",
    )

    def kept() -> float:
        seen = handle.metrics().shedding
        return 1.0 if seen is None or not seen.applied else dict(seen.sources).get("due", 1.0)

    until(lambda: kept() < 0.9, handle)
    begun, rates = handle.metrics().source_rows, list[float]()
    while handle.metrics().source_rows < begun + 20 * ROWS_PER_S:
        rates.append(kept())
    # Half of a core is five sevenths of what comes, less what a job takes besides.
    assert 0.4 < min(rates) <= max(rates) < 0.9
    handle.stop()
