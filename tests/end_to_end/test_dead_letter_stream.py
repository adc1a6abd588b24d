"""Dead letters read as a stream, end to end: from every kind of operator, to any sink, in place of the file."""

import base64
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as ps
from penstock import col
from penstock.engine.connectors.dead_letter import FILE_NAME
from penstock.engine.jobs.ledger import check_ledger
from penstock.model.dead_letters import LETTER_FIELDS
from tests.end_to_end.bad_input_support import GOOD, LARGEST, Row, from_csv, from_json, from_memory, sale
from tests.penstock.front_door import dead_letters, line, ordered


def run(stream: ps.Stream, folder: Path, **options: Any) -> Any:
    metrics = stream.job.run("letters", directory=folder / "job", max_dead_letters="any", **options)
    check_ledger(metrics.ledger, ended=True)
    return metrics


def refuse(row: Row) -> Row:
    if row["amount"] == LARGEST:
        raise ValueError("too much")
    return row


def refuse_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    if LARGEST in batch["amount"].to_pylist():
        raise ValueError("too much")
    return batch


def refuse_pair(one: Row, other: Row) -> Row:
    refuse(other)
    return other


More = col("amount") + 1
Window = ps.tumbling("1m")


@pytest.mark.parametrize("consumed", [True, False])
@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize(
    "build",
    [
        lambda s: s.filter(More > 2),
        lambda s: s.select("shop", more=More),
        lambda s: s.with_columns(more=More),
        lambda s: s.split(some=More > 2)["some"],
        lambda s: s.map(refuse),
        lambda s: s.flat_map(lambda row: [refuse(row)]),
        lambda s: s.filter(lambda row: refuse(row) is not None),
        lambda s: s.map_batches(refuse_batch),
        lambda s: s.key_by(more=More).agg(n=ps.count()),
        lambda s: s.agg(n=ps.sum_(More)),
        lambda s: s.key_by("shop").window(Window).agg(n=ps.count().filter(More > 2)),
        lambda s: s.key_by("shop").window(Window).emit("updates").agg(n=ps.sum_(More)),
        lambda s: s.key_by("shop").window(ps.session("1m")).agg(n=ps.sum_(More)),
        lambda s: s.key_by("shop").window(ps.count_window(2)).agg(n=ps.sum_(More)),
        lambda s: s.key_by(more=More).reduce(lambda one, other: other),
        lambda s: s.key_by("shop").window(Window).reduce(refuse_pair),
        lambda s: s.join(s, left_on=More, right_on="amount"),
        lambda s: s.join(s, left_on=More, right_on="amount", window=Window),
    ],
)
def test_every_kind_of_operator(
    tmp_path: Path, build: Callable[[ps.Stream], ps.Stream], parallelism: int, consumed: bool
) -> None:
    stream = from_memory(sale("a", 1, 0), sale("a", LARGEST, 1), sale("b", 5, 2), sale("b", 7, 3))
    made = build(stream)
    kept = made.collect()
    found = made.side_output("dead_letter").collect() if consumed else None
    metrics = run(made, tmp_path, parallelism=parallelism, batch_rows=1)
    assert metrics.ledger.dead_lettered == 1
    (letter,) = found.rows() if found is not None else dead_letters(tmp_path / "job")
    assert (letter["operator"], letter["position"]) == (made._operator, "")
    assert json.loads(letter["text"])["amount"] == LARGEST
    assert base64.b64decode(letter["raw_base64"]).decode() == letter["text"]
    assert (tmp_path / "job" / FILE_NAME).exists() == (not consumed)
    # The rest of the result is the same whether somebody reads the letters or not.
    again = from_memory(sale("a", 1, 0), sale("a", LARGEST, 1), sale("b", 5, 2), sale("b", 7, 3))
    other = build(again).collect()
    run(again, tmp_path / "again", parallelism=parallelism, batch_rows=1)
    assert ordered(kept.rows()) == ordered(other.rows())


BROKEN: list[str | bytes] = ['{"shop": "north", "amount": ', '{"shop": "north", "amount": "three"}', b"\xff\x00"]


@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_source_gives_bytes_and_position(tmp_path: Path, parallelism: int) -> None:
    orders = from_json(tmp_path, BROKEN[0], GOOD, BROKEN[1], BROKEN[2], '{"amount": 4}')
    bad = orders.side_output("dead_letter")
    assert bad.schema == LETTER_FIELDS
    assert not bad.updating
    result, found = orders.collect(), bad.collect()
    metrics = run(orders, tmp_path, parallelism=parallelism)
    assert len(result.rows()) == 1
    letters = sorted(found.rows(), key=lambda letter: letter["position"])
    assert [letter["position"].rsplit(":", 1)[1] for letter in letters] == ["1", "3", "4", "5"]
    raws = [base64.b64decode(letter["raw_base64"]) for letter in letters]
    assert raws == [*(text if isinstance(text, bytes) else text.encode() for text in BROKEN), b'{"amount": 4}']
    assert [letter["text"] for letter in letters] == [BROKEN[0], BROKEN[1], None, '{"amount": 4}']
    assert line(metrics, "source-1") == {"rows_in": 5, "passed": 1, "dead_lettered": 4, "rows_out": 5}
    assert not (tmp_path / "job").exists()


def test_malformed_json_to_a_parquet_file(tmp_path: Path) -> None:
    orders = from_json(tmp_path, GOOD, *BROKEN, GOOD)
    bad = orders.side_output("dead_letter").filter(col("text").is_not_null())
    bad.with_columns(characters=col("text").str.length()).write_parquet(tmp_path / "bad")
    orders.key_by("shop").window(Window).agg(n=ps.count()).write_json(tmp_path / "good")
    run(orders, tmp_path)
    letters = pq.read_table(tmp_path / "bad")
    assert letters.schema.names == [*LETTER_FIELDS.names, "characters"]
    assert letters["characters"].to_pylist() == [len(str(text)) for text in BROKEN[:2]]
    (good,) = [json.loads(text) for file in (tmp_path / "good").glob("*") for text in file.read_text().splitlines()]
    assert good["n"] == 2


def test_every_record_bad(tmp_path: Path) -> None:
    orders = from_csv(tmp_path, "shop,amount,at\n" + "a,x,2025-03-01T00:00:00\n" * 50)
    found, kept = orders.side_output("dead_letter").collect(), orders.collect()
    run(orders, tmp_path, batch_rows=7, channel_bytes=1)
    assert (len(found.rows()), kept.rows()) == (50, [])
    assert [int(letter["position"].rsplit(":", 1)[1]) for letter in found.rows()] == list(range(2, 52))


def test_only_the_letters_are_read(tmp_path: Path) -> None:
    orders = from_json(tmp_path, GOOD, *BROKEN)
    found = orders.side_output("dead_letter").collect()
    metrics = run(orders, tmp_path)
    assert len(found.rows()) == 3
    assert line(metrics, "source-1") == {"rows_in": 4, "passed": 1, "dead_lettered": 3, "rows_out": 4}


def test_two_readers_and_a_count_of_letters(tmp_path: Path) -> None:
    orders = from_json(tmp_path, GOOD, *BROKEN)
    bad = orders.side_output("dead_letter")
    results = [bad.collect(), bad.collect()]
    counted = bad.key_by("operator").agg(n=ps.count()).collect()
    metrics = run(orders, tmp_path, parallelism=2)
    assert [len(result.rows()) for result in results] == [3, 3]
    assert [row["n"] for row in counted.rows()] == [3]
    assert metrics.ledger.dead_lettered == 3


@pytest.mark.parametrize("parallelism", [1, 2])
def test_letters_of_two_operators_in_one_sink_and_others_in_the_file(tmp_path: Path, parallelism: int) -> None:
    large = json.dumps({"shop": "a", "amount": LARGEST, "at": "2025-03-01T00:00:01"})
    odd = json.dumps({"shop": "a", "amount": 3, "at": "2025-03-01T00:00:02"})
    orders = from_json(tmp_path, GOOD, BROKEN[0], large, odd)
    more = orders.with_columns(more=More).name("more")
    picky = more.filter(lambda amount: 1 / (amount - 3) < 0).name("picky")
    orders.side_output("dead_letter").union(more.side_output("dead_letter")).write_json(tmp_path / "bad")
    kept = picky.collect()
    run(orders, tmp_path, parallelism=parallelism)
    written = [json.loads(text) for file in (tmp_path / "bad").glob("*") for text in file.read_text().splitlines()]
    assert sorted(letter["operator"] for letter in written) == ["more", "source-1"]
    assert [letter["operator"] for letter in dead_letters(tmp_path / "job")] == ["picky"]
    assert [row["amount"] for row in kept.rows()] == [1]


def test_letters_of_letters(tmp_path: Path) -> None:
    orders = from_json(tmp_path, GOOD, *BROKEN)
    parsed = orders.side_output("dead_letter").with_columns(number=col("text").cast("int64"))
    found = parsed.side_output("dead_letter").collect()
    orders.write_black_hole()
    run(orders, tmp_path)
    assert [json.loads(letter["text"])["text"] for letter in found.rows()] == BROKEN[:2]
    assert not (tmp_path / "job").exists()


def test_policies_hold(tmp_path: Path) -> None:
    orders = from_json(tmp_path, GOOD, *BROKEN, on_error="skip")
    found = orders.side_output("dead_letter").collect()
    mapped = orders.map(lambda row: {**row, "amount": 1 / 0}, on_error="skip")
    also = mapped.side_output("dead_letter").collect()
    metrics = run(orders, tmp_path)
    assert found.rows() == also.rows() == []
    assert metrics.ledger.dead_lettered == 4

    strict = from_json(tmp_path, GOOD, *BROKEN, on_error="fail")
    strict.side_output("dead_letter").collect()
    with pytest.raises(ps.BadRecordError, match="'source-1' met a bad record at"):
        run(strict, tmp_path)
    assert not (tmp_path / "job").exists()


def test_an_output_of_the_same_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ps.PlanError, match=r"'split-1' has an output of the name 'dead_letter'.*name yours otherwise"):
        from_memory(sale("a", 1, 0)).split(dead_letter=col("amount") > 1)
    stream = from_memory(sale("a", 1, 0))
    with pytest.raises(ps.PlanError, match=r"has no output 'dead'; it has main, dead_letter"):
        stream.side_output("dead")
    with pytest.raises(ps.PlanError, match=r"'union-1' has no output 'dead_letter'; it has main"):
        stream.union(stream).side_output("dead_letter")


Number = st.sampled_from(["1", "2", "3", "12", "25", "40", "x", "", "y"])


@given(
    texts=st.lists(Number, max_size=25),
    read=st.sets(st.sampled_from(["cast", "filter", "next", "mapped"])),
    parallelism=st.sampled_from([1, 2]),
    batch_rows=st.sampled_from([1, 3, 100]),
)
def test_neighbours_lose_no_letters(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], read: set[str], parallelism: int, batch_rows: int
) -> None:
    folder = tmp_path_factory.mktemp("neighbours")
    stream = ps.read_memory([{"text": text} for text in texts], schema=pa.schema({"text": pa.string()}), job=ps.Job())
    some = stream.with_columns(same=col("text")).filter(col("text").str.length() > 0)
    steps = {"cast": some.with_columns(n=col("text").cast("int64")).name("cast")}
    steps["filter"] = steps["cast"].filter(col("n") + (LARGEST - 30) > 0).name("filter")
    steps["next"] = steps["filter"].with_columns(m=col("n") + (LARGEST - 20)).name("next")
    steps["mapped"] = steps["next"].map(lambda row: {**row, "m": 1 // (row["n"] - 3)}).name("mapped")
    found = {name: steps[name].side_output("dead_letter").collect() for name in read}
    kept = steps["mapped"].collect()
    metrics = run(stream, folder, parallelism=parallelism, batch_rows=batch_rows)
    expected = expected_letters(texts)
    for name, result in found.items():
        assert Counter(json.loads(letter["text"])["text"] for letter in result.rows()) == expected[name], name
        assert {letter["operator"] for letter in result.rows()} <= {name}
    assert Counter(row["text"] for row in kept.rows()) == expected["kept"]
    in_file = dead_letters(folder / "job")
    assert not read & {letter["operator"] for letter in in_file}
    assert metrics.ledger.dead_lettered == len(in_file) + sum(len(result.rows()) for result in found.values())
    assert metrics.ledger.dead_lettered == sum(sum(expected[name].values()) for name in steps)


def expected_letters(texts: list[str]) -> dict[str, Counter[str]]:
    """Say which texts each step rejects, and which come through ("kept")."""
    at = {"x": "cast", "y": "cast", "40": "filter", "25": "next", "3": "mapped"}
    expected: dict[str, Counter[str]] = {name: Counter() for name in ("cast", "filter", "next", "mapped", "kept")}
    for text in texts:
        if text:
            expected[at.get(text, "kept")][text] += 1
    return expected
