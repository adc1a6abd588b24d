"""Messages of a real broker are shed by their offsets, over transactions and restarts, as the log says."""

from pathlib import Path

import numpy as np
import pytest

from penstock.dsl.job import Job
from penstock.dsl.kafka import read_kafka
from penstock.engine.checkpoint.kept_files import read_kept_files
from penstock.engine.dataflow.partition_sample import sampling_seed
from penstock.engine.jobs.ledger import check_ledger
from penstock.model.keep_rates import STEPS, KeepRates
from penstock.shedding.offset_sampling import sample_steps
from penstock.state.checkpoints.manifest import LAST_EPOCH
from penstock.state.files.local_files import LocalFiles
from tests.kafka.test_source import Fields, MakeTopic, produce
from tests.set_rates import set_by_attempts


def test_what_stays_follows_from_offsets_whatever_run_reads_them(
    kafka: str, topic: MakeTopic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = topic(2)
    rates = set_by_attempts(monkeypatch)
    seed = sampling_seed("hourly", 0)
    kept: list[tuple[int, int]] = []
    written: list[tuple[int, int]] = []
    for run, keep in enumerate((0.5, 0.125)):
        first = 400 * run
        for partition in (0, 1):
            produce(kafka, name, range(400), partition)
            offsets = np.arange(first, first + 400)
            stay = sample_steps(seed, f"{name}/{partition}", offsets) < keep * STEPS
            kept += [(partition, int(offset)) for offset in offsets[stay]]
        rates.put(KeepRates({"orders": keep}))
        rows = read_kafka(
            name,
            kafka=kafka,
            schema=Fields,
            metadata={"partition": "part", "offset": "place"},
            until="latest",
            job=Job(),
        ).name("orders")
        result = rows.select("part", "place").collect().name("out").with_min_accuracy(0.1)
        metrics = rows.job.run("hourly", checkpoint_dir=tmp_path, at_end="keep", batch_rows=100)
        written += [(row["part"], row["place"]) for row in result.rows()]
        check_ledger(metrics.ledger, ended=True)
        assert metrics.ledger.shed == 800 * (run + 1) - len(kept)
    assert sorted(written) == sorted(kept)
    log = read_kept_files(LocalFiles(tmp_path / "hourly"), LAST_EPOCH)
    assert [(item.topic, item.partition, item.start, item.stop, item.keep) for item in log] == [
        (name, partition, 400 * run, 400 * (run + 1), keep)
        for partition in (0, 1)
        for run, keep in enumerate((0.5, 0.125))
    ]
