"""The action log: what was appended is read again; what was cut or is of another format is refused by its line."""

from pathlib import Path

import pytest

from penstock.model.plan import NoChange, RescalePlan, TaskSize
from penstock.model.snapshot import ClusterSnapshot, MachineColumns
from penstock.scheduler.action_log import ActionLog, ActionLogError, EntryKind, read_log, snapshot_of

SNAPSHOT = ClusterSnapshot(7, 35.0, 5.0, machines=MachineColumns(("a", "b"), [2.0, 4.0], [float("nan"), 50.0]))
SIZES = RescalePlan("more input", tasks=(TaskSize(0, 3, memory_level=1),), numbers={"target": 3000.0})


def written(path: Path) -> bytes:
    with ActionLog(path) as log:
        log.policy("ds2", {"factor": 0.1})
        log.snapshot(SNAPSHOT)
        log.decision(SNAPSHOT, "ds2", SIZES)
        log.result(SNAPSHOT, "ds2", "clipped", {"parallelism": 2})
    return path.read_bytes()


def test_lines_come_back_in_order(tmp_path: Path) -> None:
    path = tmp_path / "actions.jsonl"
    written(path)
    with ActionLog(path) as log:
        log.decision(SNAPSHOT, "sage", NoChange("an action is in flight"))
    entries = list(read_log(path))
    assert [entry.kind for entry in entries] == [
        EntryKind.LOG, EntryKind.POLICY, EntryKind.SNAPSHOT, EntryKind.DECISION, EntryKind.RESULT, EntryKind.DECISION,
    ]  # fmt: skip
    assert entries[1].content == {"policy": "ds2", "parameters": {"factor": 0.1}}
    assert snapshot_of(path, entries[2]).as_dict() == SNAPSHOT.as_dict()
    assert entries[3].content["decision"]["tasks"] == [
        {"task": 0, "parallelism": 3, "memory_level": 1, "managed_bytes": None}
    ]
    assert entries[4].content["outcome"] == "clipped" and entries[5].content["decision"]["kind"] == "NoChange"


def test_a_cut_line_is_named_and_an_open_log_goes_on_behind_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "actions.jsonl"
    whole = written(path)
    lines = whole.splitlines(keepends=True)
    for number, line in enumerate(lines, start=1):
        kept = b"".join(lines[: number - 1])
        for cut in {1, len(line) // 2, len(line) - 1}:
            path.write_bytes(kept + line[:cut])
            with pytest.raises(ActionLogError, match=f"actions.jsonl:{number}: the line is cut off"):
                list(read_log(path))
            with ActionLog(path) as log:
                log.decision(SNAPSHOT, "ds2", SIZES)
            assert len(list(read_log(path))) == max(number, 2)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ('{"kind":"log","format":99}\n', ":1: the log has format 99; this version reads 1"),
        ('{"kind":"policy","policy":"x","parameters":{}}\n', ":1: an action log begins with its format"),
        ('{"kind":"log","format":1}\nnonsense\n', ":2: not JSON"),
        ('{"kind":"log","format":1}\n{"kind":["log"]}\n', ":2: not a line of an action log"),
        ('{"kind":"log","format":1}\n{"kind":"decision","snapshot":1}\n', ":2: not a line of an action log"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "log"
    path.write_text(text)
    with pytest.raises(ActionLogError, match=said):
        list(read_log(path))


def test_a_snapshot_of_another_schema_is_refused_by_its_line(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(written(tmp_path / "whole").replace(b'"schema":4', b'"schema":0'))
    with pytest.raises(ActionLogError, match=":3: the snapshot has schema 0; this version reads 4"):
        [snapshot_of(path, entry) for entry in read_log(path) if entry.kind is EntryKind.SNAPSHOT]
