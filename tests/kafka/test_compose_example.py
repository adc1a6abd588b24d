"""The pipelines of deploy/ray/compose.yaml, as its services run them, against a broker that is there."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.engine.connectors.kafka.admin import create_topic, delete_topics
from penstock.engine.connectors.kafka.settings import KafkaSettings
from tests.contracts.executors.metered import LONG_S, until

EXAMPLE = Path(__file__).resolve().parents[2] / "deploy" / "ray" / "example"
EVENTS = 1_300_000
"""Some 130 s of event time, so that two windows of a minute are over."""

BIDS_A_MINUTE = 60 * 10_000 * 46 // 50


@pytest.mark.long("a million messages; test_manifests.py plans both pipelines")
def test_what_is_filled_in_is_counted_by_minute(kafka: str, tmp_path: Path) -> None:
    settings = KafkaSettings(kafka)
    create_topic(settings, "bids", 4, {"retention.ms": "-1"})
    environment = {**os.environ, "KAFKA": kafka, "DATA": str(tmp_path), "EVENTS": str(EVENTS)}
    run = [sys.executable, "-m", "penstock", "run"]
    try:
        fill = [*run, str(EXAMPLE / "fill.py")]
        subprocess.run(fill, cwd=tmp_path, env=environment, check=True, timeout=LONG_S, capture_output=True)
        counting = subprocess.Popen(
            [*run, str(EXAMPLE / "bids.py"), "--checkpoint-interval", "1s"],
            cwd=tmp_path,
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            until(lambda: len(minutes(tmp_path)) >= 2 or counting.poll() is not None)
            counting.send_signal(signal.SIGINT)
            said = counting.communicate(timeout=LONG_S)[1]
        finally:
            counting.kill()
        assert counting.returncode == 0, said
        assert list(minutes(tmp_path).values()) == [BIDS_A_MINUTE] * 2
    finally:
        delete_topics(settings, ["bids"])


def minutes(folder: Path) -> dict[str, int]:
    """Return how many bids are counted in each minute."""
    counts: dict[str, int] = {}
    for file in (folder / "channels").glob("*.jsonl"):
        for row in map(json.loads, file.read_text().splitlines()):
            counts[row["window_start"]] = counts.get(row["window_start"], 0) + row["bids"]
    return counts
