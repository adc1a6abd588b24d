import base64
import json
import traceback
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.engine.connectors.dead_letter import DeadLetterWriter
from penstock.engine.core.contract import DeadLetters
from penstock.model.connectors import RawRecord
from penstock.model.dead_letters import LETTER_FIELDS
from penstock.model.errors import BadRecordError, OptionError

ROWS = pa.RecordBatch.from_pylist([{"a": 1, "s": "x"}, {"a": 2, "s": None}])


def letters(writer: DeadLetterWriter) -> list[dict[str, Any]]:
    return [json.loads(line) for line in writer.path.read_text().splitlines()]


def test_records_are_kept_with_bytes_position_and_error(tmp_path: Path) -> None:
    writer = DeadLetterWriter(tmp_path / "job")
    contract: DeadLetters = writer
    assert not (tmp_path / "job").exists()
    raw = [RawRecord(b'{"a"', "in.jsonl:7", "truncated"), RawRecord(b"\xff\x00", "in.jsonl:9", "no text")]
    contract.reject_raw("bids", raw)
    contract.reject("convert", ROWS, ["too big", "too \ud800 small"])
    assert writer.counts == {"bids": 2, "convert": 2}
    found = letters(writer)
    assert [base64.b64decode(letter["raw_base64"]) for letter in found[:2]] == [b'{"a"', b"\xff\x00"]
    assert [letter["text"] for letter in found] == ['{"a"', None, '{"a":1,"s":"x"}', '{"a":2,"s":null}']
    assert [letter["position"] for letter in found] == ["in.jsonl:7", "in.jsonl:9", "", ""]
    assert [letter["error"] for letter in found] == ["truncated", "no text", "too big", "too \\ud800 small"]
    assert [letter["operator"] for letter in found] == ["bids", "bids", "convert", "convert"]
    writer.close()


def test_a_traceback_is_kept_apart_from_its_message(tmp_path: Path) -> None:
    writer = DeadLetterWriter(tmp_path)
    try:
        int("x")
    except ValueError:
        text = traceback.format_exc()
    writer.reject("parse", ROWS.slice(0, 1), [text])
    (letter,) = letters(writer)
    assert letter["error"] == "ValueError: invalid literal for int() with base 10: 'x'"
    assert letter["traceback"] == text
    writer.close()


def test_skip_only_counts(tmp_path: Path) -> None:
    writer = DeadLetterWriter(tmp_path, {"bids": "skip"})
    writer.reject_raw("bids", [RawRecord(b"x", "f:1", "bad")] * 3)
    writer.reject("bids", ROWS.slice(0, 0), [])
    writer.close()
    assert writer.counts == {"bids": 3}
    assert not writer.path.exists()


def test_fail_raises_one_sentence(tmp_path: Path) -> None:
    writer = DeadLetterWriter(tmp_path, {"bids": "fail"}, default="skip")
    expected = r"'bids' met a bad record at in\.jsonl:7: no number; the record is \{x\\xff; correct the input, or"
    with pytest.raises(BadRecordError, match=expected):
        writer.reject_raw("bids", [RawRecord(b"{x\xff", "in.jsonl:7", "no number")])
    with pytest.raises(BadRecordError, match=r"'bids' met a bad record: too big; the record is \{\"a\":1"):
        writer.reject("bids", ROWS, ["too big", "too small"])
    with pytest.raises(OptionError, match="on_error of bids"):
        DeadLetterWriter(tmp_path, {"bids": "ignore"})


def test_letters_can_be_had_instead_of_written(tmp_path: Path) -> None:
    writer = DeadLetterWriter(tmp_path, {"quiet": "skip", "strict": "fail"})
    found = [
        writer.raw_letters("bids", [RawRecord(b"x", "f:1", "bad")]),
        writer.letters("bids", ROWS, ["big", "small"]),
    ]
    assert [item.schema for item in found if item is not None] == [LETTER_FIELDS] * 2
    assert [item["text"].to_pylist() for item in found if item is not None] == [
        ["x"],
        ['{"a":1,"s":"x"}', '{"a":2,"s":null}'],
    ]
    assert writer.letters("quiet", ROWS, ["big", "small"]) is None
    assert writer.letters("bids", ROWS.slice(0, 0), []) is None
    assert writer.raw_letters("bids", []) is None
    with pytest.raises(BadRecordError):
        writer.letters("strict", ROWS, ["big", "small"])
    assert writer.counts == {"bids": 3, "quiet": 2, "strict": 2}
    writer.close()
    assert not writer.path.exists()


def test_a_second_run_adds_to_the_file(tmp_path: Path) -> None:
    for _ in range(2):
        writer = DeadLetterWriter(tmp_path)
        writer.reject_raw("bids", [RawRecord(b"x", "f:1", "bad")])
        writer.close()
    assert len(letters(writer)) == 2
