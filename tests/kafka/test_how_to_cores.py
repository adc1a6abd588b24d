"""The pipeline over a topic on the page about several cores runs as it stands, but for names of topics and an end."""

import json
import subprocess
import sys
from pathlib import Path

from tests.docs.pages import ROOT
from tests.kafka.conftest import MakeTopic
from tests.kafka.reading import read_topic
from tests.kafka.test_source import produce

PAGE = ROOT / "docs" / "how-to" / "more-than-one-core.md"
HOURS, SHOPS = 3, ("north", "south", "east")


def pipeline() -> str:
    """Return the program of the page."""
    (program,) = [text.split("```")[0] for text in PAGE.read_text().split("```python\n") if "ps.read_kafka(" in text]
    return program


def test_a_topic_is_summed_on_two_task_managers(kafka: str, topic: MakeTopic, tmp_path: Path) -> None:
    sales, hourly = topic(2), topic(1)
    for partition in range(2):
        rows = [
            {"at": f"2026-01-01T{hour:02}:{minute:02}:00Z", "shop": shop, "cents": 1 + partition}
            for hour in range(HOURS)
            for minute in range(60)
            for shop in SHOPS
        ]
        produce(kafka, sales, [json.dumps(row).encode() for row in rows], partition)
    program = pipeline()
    for before, after in {
        '"sales",\n    kafka="localhost:9092",': f'"{sales}",\n    kafka="{kafka}", until="latest",',
        'write_kafka("hourly", kafka="localhost:9092")': f'write_kafka("{hourly}", kafka="{kafka}")',
        'executor="processes")': "executor=\"processes\", task_managers=2, at_end='close')",
    }.items():
        assert program.count(before) == 1, before
        program = program.replace(before, after)
    (tmp_path / "sales.py").write_text(program)
    ran = subprocess.run(
        [sys.executable, "sales.py"], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    assert ran.returncode == 0, ran.stderr
    sums = [json.loads(message.value or b"") for message in read_topic(kafka, hourly)]
    assert sorted((row["shop"], row["window_start"][11:13], row["cents"]) for row in sums) == sorted(
        (shop, f"{hour:02}", 60 * (1 + 2)) for shop in SHOPS for hour in range(HOURS)
    )
