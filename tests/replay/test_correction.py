"""Corrections on a real broker: with them what sinks wrote is the exact answer, and a second run has none to add."""

import datetime
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

import penstock as ps
from penstock.engine.operators.aggregates.window_aggregate import WindowAggregate
from penstock.model.errors import UserError
from penstock.model.job_graph import SinkSpec
from penstock.replay.correction import Corrector
from penstock.replay.report import page
from penstock.replay.validation_result import Validation
from tests.command_line import penstock
from tests.kafka.reading import read_topic
from tests.replay.conftest import MakeTopic
from tests.replay.shop_topics import SINKS, START, Shop, exact, header, shop, shops, standing

__all__ = ["shop"]


BEGIN = START.replace(tzinfo=None)


def minutes(number: int) -> datetime.timedelta:
    return datetime.timedelta(minutes=number)


def corrections(validation: Validation) -> dict[str, tuple[int, int, int, int]]:
    found: dict[str, tuple[int, int, int, int]] = {}
    for query in validation.queries:
        told = query.correction
        assert told is not None and told.why is None
        found[query.query] = (told.missing, told.extra, told.different, told.messages)
    return found


def disturb(shop: Shop) -> None:
    """Write to the topics of the sinks what no stream would have written there."""
    twice = read_topic(shop.kafka, shop.topics["minutes"])[0]
    shop.put(shop.topics["minutes"], [twice.value, b"no JSON", None], key="s1")
    dear = json.loads(read_topic(shop.kafka, shop.topics["dear"])[0].value or b"")
    shop.put(shop.topics["dear"], [dear, {**dear, "n": -1}])
    for key, value in (
        ("s3", None),
        ("s4", {"shop": "s4", "n": 5, "top": 1.5}),
        ("not s5", {"shop": "s5", "n": 571, "top": 10.0}),
        ("s8", {"shop": "s8", "n": 1, "top": 1.0}),
    ):
        shop.put(shop.topics["totals"], [value], key=key)
    rows = [json.loads(message.value or b"") for message in read_topic(shop.kafka, shop.topics["changes"])]
    gone = next(row for row in rows if row["shop"] == "s3" and row["n"] < 500 and row["weight"] > 0)
    stands = next(row for row in rows if row["shop"] == "s3" and row["n"] == 571)
    other = {"shop": "s9", "n": 1, "top": 0.5, "weight": 1}
    shop.put(shop.topics["changes"], [{**gone, "weight": -1}, {**stands, "weight": -1}, other], key="s3")


@pytest.mark.long("five validations of four topics; the refusals, and test_validation with a broken operator")
def test_what_sinks_wrote_and_their_corrections_are_the_exact_answer(
    shop: Shop, topic: MakeTopic, spark: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    process = WindowAggregate.process

    def forgetful(self: WindowAggregate, port: int, batch: Any) -> Any:
        """Lose one sale of the third minute, and all of one shop in the fifth."""
        rows = batch.rows
        fifth = pc.and_(pc.equal(rows.column("shop"), "s2"), pc.equal(pc.divide(rows.column("n"), 600), 4))
        lost = pc.or_(pc.equal(rows.column("n"), 1_201), fifth)
        return process(self, port, batch.with_rows(rows.filter(pc.invert(lost))))

    monkeypatch.setattr(WindowAggregate, "process", forgetful)
    shop.run()
    monkeypatch.undo()
    right = topic(2)
    disturb(shop)
    assert all(standing(shop, name) != exact(name) for name in SINKS)
    code, validation = shop.validate("--correct", right)
    assert code == 1
    found = {query.query: query for query in validation.queries}
    # Messages that are no rows are too much, and nothing takes them back. Of a changelog, the row that was taken back
    # too often stands as often as that; it is corrected by one that was missing.
    assert {name: (query.missing, query.extra, query.different) for name, query in found.items()} == {
        "minutes": (1, 3, 1),
        "dear": (0, 2, 0),
        "totals": (1, 2, 1),
        "changes": (0, 1, 1),
    }
    told = [(str(item.status), item.key["shop"], item.key["window_start"]) for item in found["minutes"].examples]
    assert told[0] == ("different", "s4", "2024-01-01T00:02:00.000Z")
    assert told[-1] == ("missing", "s2", "2024-01-01T00:04:00.000Z")
    differing = {window.window_start: window.different for window in found["minutes"].windows if window.differs}
    assert (differing[BEGIN + minutes(2)], differing[BEGIN + minutes(4)], differing[None]) == (1, 0, 0)
    assert {(str(item.status), item.key["shop"]) for item in found["totals"].examples} == {
        ("different", "s4"),
        ("extra", "s5"),
        ("extra", "s8"),
        ("missing", "s3"),
    }
    assert corrections(validation) == {
        "minutes": (1, 1, 1, 4),
        "dear": (0, 2, 0, 2),
        "totals": (1, 2, 1, 4),
        "changes": (2, 1, 0, 3),
    }
    assert {name: standing(shop, name, right) for name in SINKS} == {name: exact(name) for name in SINKS}
    published = read_topic(shop.kafka, right)
    assert len(published) == 13
    assert {(header(item, "job"), str(header(item, "checkpoint")).isdigit()) for item in published} == {("shops", True)}
    kinds = Counter((header(item, "sink"), header(item, "status"), header(item, "change")) for item in published)
    assert kinds["minutes", "different", "insert"] == kinds["minutes", "different", "retract"] == 1
    tombstones = [(item.key, header(item, "status")) for item in published if item.value is None]
    assert sorted(tombstones) == [(b"not s5", "extra"), (b"s8", "extra")]
    assert "3 rows were corrected by 4 messages to topic" in page(validation)
    assert "corrected" in capsys.readouterr().err

    # Once more: what was said is not said again. The row that was missing comes after all, another one is overwritten.
    (late,) = [item for item in published if header(item, "status") == "missing" and header(item, "sink") == "minutes"]
    shop.put(shop.topics["minutes"], [late.value], key=late.key)
    shop.put(shop.topics["totals"], [{"shop": "s6", "n": 5, "top": 1.5}], key="s6")
    code, validation = shop.validate("--correct", right)
    assert (code, corrections(validation)) == (
        1,
        {"minutes": (0, 1, 0, 1), "dear": (0, 0, 0, 0), "totals": (0, 0, 1, 1), "changes": (0, 0, 0, 0)},
    )
    assert len(read_topic(shop.kafka, right)) == 15
    assert {name: standing(shop, name, right) for name in SINKS} == {name: exact(name) for name in SINKS}

    # A topic of upserts is put right in place.
    own = shop.topics["totals"]
    code, validation = shop.validate("--sink", "totals", "--correct", own)
    assert (code, corrections(validation)) == (1, {"totals": (1, 2, 2, 5)})
    assert standing(shop, "totals") == exact("totals")
    number = len(read_topic(shop.kafka, own))
    code, validation = shop.validate("--sink", "totals", "--correct", own)
    assert (code, corrections(validation), len(read_topic(shop.kafka, own))) == (0, {"totals": (0, 0, 0, 0)}, number)


def test_what_cannot_be_corrected_is_refused_before_spark_starts(
    shop: Shop, topic: MakeTopic, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = shops(shop.kafka, shop.sales)
    ps.read_memory([{"n": 1}], job=job).write_parquet(tmp_path / "file").name("file")
    sinks = {node.name: node for node in job.graph.operators.values() if isinstance(node.spec, SinkSpec)}

    def refusal(to: str, *names: str) -> str:
        with pytest.raises(UserError) as caught:
            Corrector(to, job.graph, "shops", None).check([sinks[name] for name in names])
        return str(caught.value)

    other = topic()
    assert "source 'sales' reads this topic" in refusal(shop.sales, "minutes")
    assert "'minutes' appends to" in refusal(shop.topics["minutes"], "minutes")
    assert "is the topic of sink 'minutes', so name another one for 'totals'" in refusal(
        shop.topics["minutes"], "totals"
    )
    assert "sink 'file' writes to" in refusal(other, "file")
    assert "topic 'none-such' is not there" in refusal("none-such", "minutes", "file")
    assert "is no name of a topic" in refusal("a topic", "minutes")
    Corrector(other, job.graph, "shops", None).check(list(sinks.values()))
    Corrector(shop.topics["totals"], job.graph, "shops", None).check([sinks["totals"], sinks["minutes"]])
    asked = [str(shop.folder / "shops.py"), "--to", json.dumps({f"{shop.sales}/0": 5}), "--correct", other]
    assert penstock("validate", *asked, "--", str(shop.folder / "none"), shop.kafka, shop.sales) == 2
    assert "leave out --to" in capsys.readouterr().err
