"""A job that sheds by strata of message keys is killed again and again: Spark finds what its log says was kept."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from penstock.engine.connectors.kafka.admin import delete_topics
from penstock.engine.connectors.kafka.settings import KafkaSettings
from penstock.replay.validation_result import ComparisonStatus
from tests.chaos.shedding_attacks import PIPELINE, SheddingAttacker, make_orders, shedding_lives
from tests.command_line import penstock
from tests.replay.validation_reading import from_json

MESSAGES = 8_000


@pytest.mark.long("a validation of a job that was killed; test_strata_topics and test_shedding_chaos have its halves")
def test_after_kills_what_was_kept_by_strata_is_proved(kafka: str, tmp_path: Path, spark: Any) -> None:
    orders, looked = make_orders(kafka, MESSAGES), list[Path]()

    def look(folder: Path, arguments: Sequence[str]) -> None:
        (log,) = (folder / "checkpoints").glob("*/kept")
        up_to = ["--checkpoint-dir", str(folder / "checkpoints")]
        asked = [str(PIPELINE), "--out", str(folder), "--kept", str(log), *up_to]
        code = penstock("validate", *asked, "--", kafka, orders.topic, "dealt", *arguments)
        validation = from_json((folder / "validation.json").read_text(), "validation.json")
        assert (code, validation.left_out) == (0, 0)
        assert {query.status for query in validation.queries} == {ComparisonStatus.SAME}, validation.queries
        looked.append(folder)

    with shedding_lives(orders) as start:
        report = SheddingAttacker(tmp_path, start, orders).moments(4, seed=6, way="deals", look=look)
    delete_topics(KafkaSettings(kafka), [orders.topic])
    assert (report.failure, report.kills, report.lost, report.duplicated) == (None, 4, 0, 0), report
    assert looked
