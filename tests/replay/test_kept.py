"""A replay of what a log says was kept: of that and nothing else, and no log that cannot be right is used."""

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.connectors.kafka.formats.json import JsonValues
from penstock.engine.connectors.kafka.messages import Messages
from penstock.engine.connectors.kafka.rows import DecodedMessages, RowMaker
from penstock.model.errors import UserError
from penstock.replay.kafka_slices import OffsetRange, RowPosition, cut
from penstock.replay.offset_log import OffsetLog, read_offset_log
from penstock.replay.offsets import OffsetSelection
from penstock.replay.report import page
from penstock.replay.report_wording import context
from penstock.replay.row_selection import select_ranges, selective_maker
from penstock.replay.validation_json import to_json
from penstock.replay.validation_result import ComparisonStatus
from tests.command_line import penstock
from tests.replay.shop_topics import PARTITIONS, SALES, Shop, sale, shop

__all__ = ["shop"]

BLOCK = 40
HEAD = '{"version": 1, "topics": ["t", "u"]}\n'


def line(start: int, stop: int, partition: int = 0, topic: str = "t") -> str:
    return json.dumps({"topic": topic, "partition": partition, "from": start, "to": stop}) + "\n"


def log_of(path: Path, text: str) -> OffsetLog:
    path.write_text(text)
    log = read_offset_log(path)
    assert isinstance(log, OffsetLog)
    return log


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "line 1: the line is empty"),
        ('{"version": 3, "topics": []}', "line 1: the log is of version 3, but this Penstock reads 1 and 2"),
        (line(0, 1), "line 1: the line is to be an object with the fields version, topics, and no others"),
        (HEAD + line(0, 5) + "\n" + line(5, 6), "line 3: the line is empty"),
        (HEAD + line(0, 5) + line(5, 9)[:-9], "line 3: this is no JSON (Expecting property"),
        (
            HEAD + '{"topic": "t", "partition": 0, "from": 1}',
            "line 2: the line is to be an object",
        ),
        (
            HEAD + '{"topic": "t", "partition": 0, "from": 1, "to": 2, "kept": 1}',
            "line 2: the line is to be an object with",
        ),
        (
            HEAD + '{"topic": "t", "partition": 0, "from": true, "to": 2}',
            "line 2: from is True, which is no whole",
        ),
        ('{"version": 1, "topics": [1]}', "line 1: topics is to be a list of names"),
        (HEAD + "[" * 100_000, "line 2: this is no JSON"),
        (HEAD + "[]", "line 2: the line is to be an object"),
        (HEAD + line(5, 5), "line 2: t/0 from 5 up to 5 is no range"),
        (HEAD + line(-1, 5), "line 2: partitions and offsets are not negative"),
        (HEAD + line(0, 5, -1), "line 2: partitions and offsets are not negative"),
        (HEAD + line(0, 5, topic="v"), "line 2: topic 'v' is none of those that the first line names"),
        (HEAD + line(0, 5) + line(0, 9, 1) + line(4, 9), "line 4: t/0 from 4 up to 9 overlaps 0 up to 5"),
        (HEAD + line(7, 9) + line(0, 9, 1) + line(0, 5), "line 4: t/0 from 0 up to 5 comes behind 7 up to 9"),
    ],
)
def test_a_log_that_cannot_be_right_is_refused_with_the_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UserError) as caught:
        log_of(tmp_path / "kept.jsonl", text)
    assert str(caught.value).startswith(f"{tmp_path / 'kept.jsonl'}, {said}")


def test_what_a_log_does_not_mention_was_not_kept_in_its_topics_alone(tmp_path: Path) -> None:
    log = log_of(tmp_path / "kept.jsonl", HEAD + line(0, 5) + line(0, 9, 1) + line(5, 8) + line(20, 30))
    assert log.ranges == {("t", 0): [(0, 8), (20, 30)], ("t", 1): [(0, 9)]}
    whole = OffsetRange("t", 0, RowPosition(4), RowPosition(25, 2))
    assert log.kept_of(whole) == (
        [OffsetRange("t", 0, RowPosition(4), RowPosition(8)), OffsetRange("t", 0, RowPosition(20), RowPosition(25, 2))],
        12,
    )
    assert log.kept_of(OffsetRange("t", 7, RowPosition(0), RowPosition(10))) == ([], 10)
    assert log.kept_of(OffsetRange("u", 0, RowPosition(0), RowPosition(10))) == ([], 10)
    other = OffsetRange("other", 0, RowPosition(0), RowPosition(10))
    assert log.kept_of(other) == ([other], 0)
    with pytest.raises(UserError, match="cannot be read: No such file"):
        read_offset_log(tmp_path / "none")


MAKER = RowMaker(JsonValues(pa.schema([("id", pa.int64())])), None, {"offset": "offset"}, ("id", "offset"))
VALUES = [b'{"id": 1}', b"bad", None, b'{"id": 2}']


def messages(offsets: Sequence[int]) -> Messages:
    stamps = np.zeros(len(offsets), [("kind", np.int64), ("ms", np.int64)])
    return Messages("t", 0, [VALUES[offset % 4] for offset in offsets], np.array(offsets), stamps)


def told(made: DecodedMessages, offsets: Sequence[int]) -> list[Any]:
    """Return rows and errors, each with the offset of its message; all of them must be one of its own."""
    assert made.rows.column("offset").to_pylist() == [offsets[index] for index in made.row_of]
    assert len(made.row_of) + len(made.errors) + len(made.skipped) == len(offsets)
    return [*made.rows.to_pylist(), *((offsets[index], reason) for index, reason in made.errors)]


@given(
    st.lists(st.integers(0, 60), max_size=12, unique=True),
    st.lists(st.integers(0, 60), min_size=1, max_size=30, unique=True),
    st.integers(0, 9),
)
def test_rows_are_those_of_the_messages_that_were_kept(edges: list[int], some: list[int], near: int) -> None:
    offsets, edges = sorted(some), sorted(edges)
    first, last = offsets[0], offsets[-1] + 1
    kept = list(zip(edges[::2], edges[1::2], strict=False))
    whole = OffsetSelection((OffsetRange("t", 0, RowPosition(first), RowPosition(last)),), {})
    less, left_out = select_ranges(whole, OffsetLog("log", frozenset("t"), {("t", 0): kept}), near)
    maker = selective_maker(MAKER.fresh(), less.only).fresh()
    found, offsets_read = [], 0
    for piece in cut(less.ranges, fewest=1, slices=3):
        offsets_read += piece.stop - piece.start
        here = [offset for offset in offsets if piece.start <= offset < piece.stop]
        found += told(maker.make(messages(here)), here) if here else []
    inside = [offset for offset in range(first, last) if any(start <= offset < stop for start, stop in kept)]
    expected = [
        item for offset in offsets if offset in inside for item in told(MAKER.make(messages([offset])), [offset])
    ]
    assert sorted(map(repr, found)) == sorted(map(repr, expected))
    assert left_out == {"t": last - first - len(inside)}
    # What lies between ranges is read over only where little does.
    between = [then[0] - now[1] for now, then in pairwise(kept)]
    assert offsets_read <= len(inside) + sum(gap for gap in between if gap <= near)


@pytest.mark.long("five runs of commands on Spark; the readings of logs of what was kept")
def test_a_stream_that_drops_at_its_source_is_the_same_as_a_replay_of_what_it_kept(
    shop: Shop, spark: Any, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    make = RowMaker.make
    seen: set[tuple[int, int]] = set()

    def dropping(self: RowMaker, messages: Messages) -> DecodedMessages:
        """Drop every tenth range of offsets, and note which of the others were seen."""
        made = make(self, messages)
        blocks = messages.offsets // BLOCK
        seen.update((messages.partition, block) for block in blocks.tolist() if block % 10 != 3)
        kept = (blocks % 10 != 3)[made.row_of]
        return DecodedMessages(made.rows.filter(pa.array(kept)), made.row_of[kept], made.errors, made.skipped)

    monkeypatch.setattr(RowMaker, "make", dropping)
    shop.run()
    monkeypatch.undo()
    dropped = PARTITIONS * sum(offset // BLOCK % 10 == 3 for offset in range(SALES // PARTITIONS))
    log, lie = shop.folder / "kept.jsonl", shop.folder / "lie.jsonl"
    for file, blocks in ((log, seen), (lie, {*seen, (1, 3)})):
        lines = [line(block * BLOCK, (block + 1) * BLOCK, partition, shop.sales) for partition, block in sorted(blocks)]
        file.write_text(json.dumps({"version": 1, "topics": [shop.sales]}) + "\n" + "".join(lines))

    sinks = ("--sink", "minutes", "--sink", "dear")
    code, validation = shop.validate("--sink", "minutes")
    assert (code, [query.status for query in validation.queries]) == (1, [ComparisonStatus.DIFFERS])
    assert (validation.kept, validation.sources[0].left_out) == (None, None)

    code, validation = shop.validate(*sinks, "--kept", str(log))
    assert (code, [query.status for query in validation.queries]) == (0, [ComparisonStatus.SAME] * 2)
    assert validation.sources[0].left_out == validation.left_out == dropped > 0
    assert json.loads(to_json(validation))["kept"] == {"log": str(log), "offsets_left_out": dropped}
    sentence = f"{dropped} offsets were left out, as {log} does not say that the stream has kept them."
    assert sentence in context(validation) and sentence in capsys.readouterr().err
    assert f"{dropped} offsets left out by the log" in page(validation)

    code, validation = shop.validate("--sink", "minutes", "--kept", str(lie))
    assert (code, validation.left_out) == (1, dropped - BLOCK)
    (query,) = validation.queries
    assert query.different > 0 and {window.window_start.minute for window in query.windows if window.differs} == {0}  # type: ignore[union-attr]

    out = shop.folder / "exact"
    asked = [str(shop.folder / "shops.py"), "--kept", str(log), "--json", "--out", str(out)]
    capsys.readouterr()
    assert penstock("replay", *asked, "--", str(shop.folder / "checkpoints"), shop.kafka, shop.sales) == 0
    counts = {item["sink"]: item["rows"] for item in json.loads(capsys.readouterr().out)["sinks"]}
    kept = [number for number in range(SALES) if number // PARTITIONS // BLOCK % 10 != 3]
    assert counts["dear"] == sum(sale(number)["price"] > 9 for number in kept)

    log.write_text(json.dumps({"version": 1, "topics": ["another"]}))
    assert penstock("replay", *asked, "--", str(shop.folder / "checkpoints"), shop.kafka, shop.sales) == 1
    assert "is about topic 'another', which no source reads" in capsys.readouterr().err
