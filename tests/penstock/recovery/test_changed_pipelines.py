"""A changed pipeline over the state of another: refused in the user's words with the ways out, or right."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

import penstock as ps
from penstock import Stream, count, sum_
from penstock.state.checkpoints.manifest import decode_manifest, encode_manifest
from tests.penstock.recovery.changed_pipelines import REFUSED
from tests.penstock.recovery.harmless_changes import HARMLESS
from tests.penstock.recovery.stateful_pipelines import PIPELINES, RESULT, Total, agg, top, tumbling
from tests.penstock.recovery.stopped_jobs import Pipeline, finished, stopped, written

CHANGES = [(name, says) for name, changes in REFUSED.items() for says in changes]


def test_every_pipeline_has_changes() -> None:
    assert REFUSED.keys() == PIPELINES.keys()


@pytest.mark.parametrize(("name", "says"), CHANGES, ids=[f"{name}: {says}" for name, says in CHANGES])
def test_a_change_of_meaning_is_refused_with_the_ways_out(name: str, says: str, tmp_path: Path) -> None:
    stopped(PIPELINES[name], tmp_path)
    changed = REFUSED[name][says]
    with pytest.raises(ps.UserError) as refusal:
        finished(changed, tmp_path)
    text = str(refusal.value)
    assert f"'kept' at {__file__.rpartition('/')[0]}" in text
    assert says in text
    for way_out in ("drop_state='kept'", "--drop-state kept", "accept_changed='kept'", ".name(...)"):
        assert way_out in text
    # Nothing was spoiled: without its state it begins, and ends.
    finished(changed, tmp_path, drop_state=["kept", "one"])


@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize("change", HARMLESS)
def test_what_changes_no_meaning_goes_on(change: str, parallelism: int, tmp_path: Path) -> None:
    before, after, columns = HARMLESS[change]
    stopped(before, tmp_path / "changed")
    whole = finished(after, tmp_path / "whole")
    found = finished(after, tmp_path / "changed", columns=columns, parallelism=parallelism)
    assert found == (whole if columns is None else written(tmp_path / "whole", columns))


@pytest.mark.parametrize("name", ["agg", "tumbling", "session"])
@pytest.mark.parametrize(("before", "after"), [(1.0, 0.5), (0.5, 1.0), (0.5, 0.5)])
def test_a_contract_may_come_and_go_between_two_runs(name: str, before: float, after: float, tmp_path: Path) -> None:
    pipeline = PIPELINES[name]
    whole = finished(pipeline, tmp_path / "whole")
    stopped(pipeline, tmp_path / "changed", accuracy=before)
    found = finished(pipeline, tmp_path / "changed", columns=whole[0], accuracy=after, parallelism=2)
    assert found == whole
    under = finished(pipeline, tmp_path / "under", accuracy=after)
    assert ("accuracy" in under[0]) == (after < 1.0)


def _two(first: str, second: str) -> Pipeline:
    """Count by item under one name, and take the dearest under another."""

    def pipeline(left: Stream, right: Stream) -> Stream:
        right.key_by("item").top(1, by="price").name(second).write_black_hole(mode="changelog").name("tops")
        return left.key_by("item").agg(n=count(), total=sum_("price")).name(first)

    return pipeline


def test_operators_that_have_changed_names_are_told(tmp_path: Path) -> None:
    stopped(_two("counts", "tops of items"), tmp_path)
    with pytest.raises(ps.UserError, match="it was an 'agg' and is a 'top' now") as refusal:
        finished(_two("tops of items", "counts"), tmp_path)
    assert "it seems to have changed names with 'tops of items'" in str(refusal.value)
    assert "--drop-state counts --drop-state 'tops of items'" in str(refusal.value)


def _without_meanings(folder: Path) -> None:
    """Make the checkpoint one of a version that noted no meanings."""

    for path in (folder / "checkpoints" / "kept" / "checkpoints").iterdir():
        manifest = msgspec.structs.replace(decode_manifest(path.read_bytes()), meanings=None, format=1)
        path.write_bytes(encode_manifest(manifest))


def test_state_without_meanings_is_told_to_be_unchecked_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stopped(tumbling, tmp_path)
    _without_meanings(tmp_path)
    finished(tumbling, tmp_path)
    said = capsys.readouterr().err
    assert said.count("STATE NOT CHECKED: epoch 1 was written by Penstock") == 1
    finished(tumbling, tmp_path)
    assert "STATE NOT CHECKED" not in capsys.readouterr().err


@pytest.mark.parametrize("pair", [(tumbling, top), (top, tumbling), (agg, top)])
def test_without_meanings_another_operator_is_no_key_error(pair: tuple[Pipeline, Pipeline], tmp_path: Path) -> None:
    stopped(pair[0], tmp_path)
    _without_meanings(tmp_path)
    with pytest.raises(ps.UserError, match="'kept' was written by another"):
        finished(pair[1], tmp_path)
    finished(pair[1], tmp_path, drop_state="kept")


def test_what_is_new_and_what_is_gone_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stopped(agg, tmp_path)
    capsys.readouterr()
    finished(lambda left, right: left.key_by("item").agg(n=count(), fees=sum_("fee")).name("kept"), tmp_path, ["n"])
    said = capsys.readouterr().err
    assert "STATE KEPT: 'kept' goes on, but its aggregate 'fees' (sum(fee)) is new and begins with the rows" in said
    assert "its aggregate 'total' (sum(price)) is gone, and what it kept is dropped." in said


def test_an_accepted_change_goes_on_with_the_state(tmp_path: Path) -> None:
    def shifted(left: Stream, right: Stream) -> Stream:
        same = left.with_columns(amount=ps.col("price"))
        return same.key_by("item").window(ps.tumbling("20s")).agg(n=count(), total=sum_("amount")).name("kept")

    stopped(tumbling, tmp_path / "changed")
    with pytest.raises(ps.UserError, match=r"'total' was sum\(price\) and is sum\(amount\) now"):
        finished(shifted, tmp_path / "changed")
    whole = finished(shifted, tmp_path / "whole")
    assert finished(shifted, tmp_path / "changed", accept_changed="kept") == whole


def test_a_new_column_of_rows_that_are_kept_is_refused_or_null(tmp_path: Path) -> None:
    def wider(left: Stream, right: Stream) -> Stream:
        return left.with_columns(more=ps.col("fee") + 1).key_by("item").deduplicate("last").name("kept")

    stopped(PIPELINES["deduplicate_last"], tmp_path)
    with pytest.raises(ps.UserError, match=r"'kept' needs the column 'more' \(int64\), which the rows that it kept"):
        finished(wider, tmp_path)
    finished(wider, tmp_path, ["item", "price"], accept_changed=["kept"])


def test_dropped_state_is_dropped_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A supervisor starts with the same options again and again: they must not cost what was kept since."""
    changed = REFUSED["tumbling"]["its window was tumbling 20s and is tumbling 10s now"]
    stopped(tumbling, tmp_path)
    stopped(changed, tmp_path, drop_state="kept")
    assert "STATE DROPPED: 'kept' begins without state: its window was tumbling 20s" in capsys.readouterr().err
    before = ps.read_checkpoint(tmp_path / "checkpoints")
    stopped(changed, tmp_path, drop_state="kept")
    assert "STATE DROPPED" not in capsys.readouterr().err
    assert ps.read_checkpoint(tmp_path / "checkpoints").tables() == before.tables()


def test_state_of_operators_that_are_gone_goes_by_name(tmp_path: Path) -> None:
    def other(left: Stream, right: Stream) -> Stream:
        return left.key_by("item").agg(n=count()).name("another")

    stopped(agg, tmp_path)
    with pytest.raises(ps.UserError, match=r"holds state of 'kept'.*drop_state='kept' \(--drop-state kept\)"):
        finished(other, tmp_path, drop_state="not that")
    finished(other, tmp_path, drop_state="kept")


def test_meanings_are_in_the_manifest_in_words(tmp_path: Path) -> None:
    stopped(lambda left, right: left.key_by("item").process(Total, RESULT).name("kept"), tmp_path)
    (path,) = (tmp_path / "checkpoints" / "kept" / "checkpoints").iterdir()
    manifest: dict[str, Any] = json.loads(path.read_bytes())["manifest"]
    assert manifest["meanings"]["kept"] == {
        "kind": "process",
        "traits": {"key": "item", "input": "an append-only stream", "order": "event time"},
        "states": {"seen": "list of int64", "total": "value of int64"},
        "keys": ["item"],
    }
