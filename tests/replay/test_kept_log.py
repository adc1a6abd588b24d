"""Logs of keep rates: no log that cannot be right is read, and of every record they say whether it stayed."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.errors import UserError
from penstock.replay.kafka_slices import offset_range
from penstock.replay.kept_log import ALL_KEPT, KeptLog, Stretch, StretchRates
from penstock.replay.offset_log import kept_log_in, read_offset_log
from penstock.shedding.offset_sampling import sample_steps
from penstock.state.files.local_files import LocalFiles

HEAD = '{"version": 2, "job": "shop", "seed": 7}\n'


def line(start: Any, stop: Any, keep: Any = 1.0, **more: Any) -> str:
    item = {"source": "bids", "topic": "t", "partition": 0, "from": start, "to": stop, "keep": keep, "branches": {}}
    return json.dumps(item | more) + "\n"


def log_of(path: Path, text: str) -> KeptLog:
    path.write_text(text)
    log = read_offset_log(path)
    assert isinstance(log, KeptLog)
    return log


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"version": 2, "job": "shop"}', "line 1: the line is to be an object with the fields version, job, seed"),
        ('{"version": 2, "job": "shop", "seed": "7"}', "line 1: seed is '7', which is no whole number"),
        (HEAD + "\n" + line(0, 5), "line 2: the line is empty"),
        (HEAD + line(0, 5)[:-9], "line 2: this is no JSON"),
        (HEAD + "[1]", "line 2: the line is to be an object"),
        (HEAD + line(0, 5, more=1), "line 2: the line is to be an object with the fields source, topic, partition"),
        (HEAD + line(0, 5, source=None), "line 2: source is None, which is no text"),
        (HEAD + line(0, 5, topic=3), "line 2: topic is 3, which is neither text nor null"),
        (HEAD + line(0, 5, partition="0"), "line 2: partition is '0': a whole number of a topic, else a name"),
        (HEAD + line(0, 5, topic=None), "line 2: partition is 0: a whole number of a topic, else a name"),
        (HEAD + line(0, 5, partition=-1), "line 2: partitions and offsets are not negative"),
        (HEAD + line(-1, 5), "line 2: partitions and offsets are not negative"),
        (HEAD + line(0, True), "line 2: to is True, which is no whole number"),
        (HEAD + line(5, 5), "line 2: t/0 from 5 up to 5 is no range"),
        (HEAD + line(0, 5, 0.7), "line 2: keep is 0.7, which is no multiple of 1/64 from 0 to 1"),
        (HEAD + line(0, 5, 2), "line 2: keep is 2, which is no multiple"),
        (HEAD + line(0, 5, True), "line 2: keep is True, which is no multiple"),
        (HEAD + line(0, 5, branches=[]), "line 2: branches is [], which is no object of rates by branch"),
        (HEAD + line(0, 5, branches={"a": 0.5}), "line 2: the branch 'a' is to be PRODUCER>CONSUMER"),
        (HEAD + line(0, 5, branches={"a>b": 0.3}), "line 2: the rate of branch 'a>b' is 0.3, which is no multiple"),
        (HEAD + line(0, 5, 0.5, branches={"a>b": 0.75}), "line 2: branch 'a>b' keeps 0.75 of the records, more than"),
        (HEAD + line(0, 5) + line(0, 9, partition=1) + line(4, 9), "line 4: t/0 from 4 up to 9 overlaps 0 up to 5"),
        (HEAD + line(7, 9) + line(0, 5), "line 3: t/0 from 0 up to 5 comes behind 7 up to 9"),
    ],
)
def test_a_log_that_cannot_be_right_is_refused_with_the_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UserError) as caught:
        log_of(tmp_path / "kept.jsonl", text)
    assert str(caught.value).startswith(f"{tmp_path / 'kept.jsonl'}, {said}")


def test_neighbours_of_equal_rates_are_one_stretch(tmp_path: Path) -> None:
    text = (
        line(0, 5)
        + line(5, 9, 0.5)
        + line(9, 12, 0.5, branches={"a>b": 0.5})
        + line(12, 20, 0.5, branches={"a>b": 0.25})
    )
    log = log_of(tmp_path / "kept.jsonl", HEAD + text + line(0, 3, source="clicks", topic=None, partition="file"))
    half, quarter = StretchRates(0.5), StretchRates(0.5, {"a>b": 0.25})
    assert log.stretches == {
        ("bids", "t", 0): [Stretch(0, 5, ALL_KEPT), Stretch(5, 12, half), Stretch(12, 20, quarter)],
        ("clicks", None, "file"): [Stretch(0, 3, ALL_KEPT)],
    }
    assert (log.job, log.seed) == ("shop", 7)
    assert (log.rates(), log.branches) == ((ALL_KEPT, half, quarter), {"a>b"})
    assert (log.topics, log.sources) == ({"t"}, {"bids", "clicks"})


def test_the_log_of_a_job_is_a_folder_whose_parts_are_one_log(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    folder.mkdir()
    with pytest.raises(UserError, match="there is no log of what was kept in"):
        read_offset_log(folder)
    (folder / "0000000001-0000000001.jsonl").write_text(HEAD + line(0, 5, 0.5) + line(0, 4, partition=1))
    (folder / "0000000002-0000000001.jsonl").write_text(HEAD + line(5, 9, 0.5) + line(4, 8, 0.5, partition=1))
    log = read_offset_log(folder)
    assert isinstance(log, KeptLog)
    assert log.stretches == {
        ("bids", "t", 0): [Stretch(0, 9, StretchRates(0.5))],
        ("bids", "t", 1): [Stretch(0, 4, ALL_KEPT), Stretch(4, 8, StretchRates(0.5))],
    }
    part = folder / "0000000003-0000000001.jsonl"
    for text, said in (
        (HEAD + line(8, 12), r"two files of the log in .* are about offset 8 of \('bids', 't', 0\)"),
        (HEAD.replace("7", "8"), "is of job 'shop' with the seed 8"),
        ('{"version": 1, "topics": []}\n', "is of version 1, but the parts of a folder are of 2"),
        (HEAD + line(8, 8), "0000000003-0000000001.jsonl, line 2: t/0 from 8 up to 8 is no range"),
    ):
        part.write_text(text)
        with pytest.raises(UserError, match=said):
            read_offset_log(folder)


class _MergedMeanwhile(LocalFiles):
    """The files of a job that merges its log right before the second file is read."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.reads = 0

    def read(self, path: str) -> bytes:
        self.reads += 1
        if self.reads == 2:
            (self.base / "0000000002-0000000001-0000000001.jsonl").write_text(HEAD + line(0, 9, 0.5))
            for epoch in (1, 2):
                (self.base / f"000000000{epoch}-0000000001.jsonl").unlink()
        return super().read(path)


def test_a_log_that_is_merged_while_it_is_read_is_read_again(tmp_path: Path) -> None:
    (tmp_path / "0000000001-0000000001.jsonl").write_text(HEAD + line(0, 5, 0.5))
    (tmp_path / "0000000002-0000000001.jsonl").write_text(HEAD + line(5, 9, 0.5))
    log = kept_log_in(_MergedMeanwhile(tmp_path), "kept")
    assert log is not None and log.stretches == {("bids", "t", 0): [Stretch(0, 9, StretchRates(0.5))]}


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(0, 64)), max_size=6), st.integers(0, 50), st.integers(1, 80))
def test_the_offsets_that_were_left_out_are_those_whose_step_is_not_below_the_rate(
    parts: list[tuple[int, int]], start: int, length: int
) -> None:
    stretches, at, limit = [], 10, dict[int, int]()
    for wide, step in parts:
        stretches.append(Stretch(at, at + wide, StretchRates(step / 64)))
        limit |= dict.fromkeys(range(at, at + wide), step)
        at += wide + 3
    log = KeptLog("log", "shop", 7, {("bids", "t", 0): stretches})
    offsets = np.arange(start, start + length)
    steps = sample_steps(7, "t/0", offsets)
    dropped = sum(step >= limit.get(offset, 64) for offset, step in zip(offsets.tolist(), steps.tolist(), strict=True))
    assert log.left_out("bids", offset_range("t", 0, start, start + length)) == dropped
    assert log.left_out("clicks", offset_range("t", 0, start, start + length)) == 0
