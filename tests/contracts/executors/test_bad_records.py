"""Bad records on every executor: each is in the job's one file, and all of them together count against the limit."""

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.engine.jobs.ledger import check_ledger
from penstock.model.errors import DeadLetterLimitError
from tests.contracts.executors.ways import CASES, EXECUTORS, SMALL

FILES, ROWS, BAD = 4, 2_000, 6
"""Each file has so many rows, the first of which are bad."""


@pytest.fixture(params=CASES)
def options(request: pytest.FixtureRequest) -> Mapping[str, Any]:
    return {**EXECUTORS[request.param], **SMALL, "parallelism": 2}


@pytest.fixture
def job(tmp_path: Path) -> ps.Job:
    """Return a job over files each of which begins with bad lines, and a function that refuses a row of each."""
    (tmp_path / "in").mkdir()
    for number in range(FILES):
        lines = [f'{{"id": "{number} {i}"}}' for i in range(BAD)]
        lines += [json.dumps({"id": number * ROWS + i}) for i in range(BAD, ROWS)]
        (tmp_path / "in" / f"{number}.jsonl").write_text("\n".join(lines) + "\n")
    made = ps.Job()
    ids = ps.read_json(tmp_path / "in", schema={"id": int}, job=made).name("ids")
    ids.map(refuse_the_last).name("refusing").write_parquet(tmp_path / "out").name("out")
    return made


def refuse_the_last(row: dict[str, int]) -> dict[str, int]:
    if row["id"] % ROWS == ROWS - 1:
        raise ValueError("the last of a file")
    return row


def test_the_file_has_every_dead_letter_once(tmp_path: Path, job: ps.Job, options: Mapping[str, Any]) -> None:
    metrics = job.run("bad", directory=tmp_path / "job", max_dead_letters=FILES * BAD, **options)
    check_ledger(metrics.ledger, ended=True)
    assert metrics.ledger.dead_lettered == FILES * (BAD + 1)
    rejected = {line.operator: (line.rejected, line.rows) for line in metrics.bad_records}
    assert rejected == {"ids": (FILES * BAD, FILES * ROWS), "refusing": (FILES, FILES * (ROWS - BAD))}
    lines = (tmp_path / "job" / "dead_letters.jsonl").read_text().splitlines()
    letters = [json.loads(line) for line in lines]
    texts = sorted(letter["text"] for letter in letters if letter["operator"] == "ids")
    assert texts == sorted(f'{{"id": "{number} {i}"}}' for number in range(FILES) for i in range(BAD))
    refused = sorted(json.loads(letter["text"])["id"] for letter in letters if letter["operator"] == "refusing")
    assert refused == [number * ROWS + ROWS - 1 for number in range(FILES)]
    assert all(base64.b64decode(letter["raw_base64"]).decode() == letter["text"] for letter in letters)


def test_the_limit_is_of_all_instances_together(tmp_path: Path, job: ps.Job, options: Mapping[str, Any]) -> None:
    # No instance of two has as many by itself.
    limit = FILES * BAD - 1
    with pytest.raises(DeadLetterLimitError, match=f"'ids' cannot go on: {FILES * BAD} of its"):
        job.run("bad", directory=tmp_path / "job", max_dead_letters=limit, **options)
    assert not list((tmp_path / "out").glob("*.parquet"))
