"""The status of what runs in several places: what the parts say together is what one place would say."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from penstock.engine.checkpoint.writer import CutWriter
from penstock.engine.connectors.dead_letter import FirstBadRecord
from penstock.engine.dataflow.checkpoint_port import Contribution
from penstock.engine.dataflow.cut import InstanceCut
from penstock.engine.dataflow.worker import Ran
from penstock.engine.jobs.bad_records import BadRecords
from penstock.engine.jobs.ledger import read_ledger
from penstock.engine.jobs.part_status import PartStatus, is_at_rest, merge_statuses, read_status
from penstock.engine.jobs.rows_decided import RowsDecided, add_decided, decided_at, decided_by, read_decided
from penstock.model.dead_letter_limit import DEFAULT_LIMIT, DeadLetterLimit, dead_letter_limit
from penstock.model.execution_graph import ExecutionGraph
from tests.engine.dataflow.parts import Parts

DICE = np.random.default_rng(7)
ROWS = 3_000
TABLE = pa.table(
    {
        "k": DICE.integers(0, 50, ROWS),
        "v": pa.array([str(value) if value % 20 else "bad" for value in range(ROWS)]),
        "t": pa.array(np.arange(ROWS) * 1_000, pa.timestamp("us")),
    }
)


def parsed(row: dict[str, str]) -> dict[str, int]:
    return {"k": int(row["k"]), "n": int(row["v"])}


def pipeline(job: ps.Job) -> None:
    keyed = ps.read_memory(TABLE, time="t", job=job).key_by("k").window(ps.tumbling("100ms")).agg(v=ps.last("v"))
    numbers = keyed.map(parsed, schema={"k": "int64", "n": "int64"}).name("parse")
    numbers.key_by("n").agg(rows=ps.count()).write_black_hole(mode="changelog")


def split(dice: np.random.Generator, folder: Path, **options: object) -> tuple[ExecutionGraph, Parts]:
    """Build the pipeline in a random number of parts, its instances anywhere."""
    job = ps.Job()
    pipeline(job)
    graph, count = job.plan(int(dice.integers(1, 5))), int(dice.integers(2, 5))
    places = {(task.id, index): int(dice.integers(count)) for task in graph.tasks for index in range(task.parallelism)}
    return graph, Parts(graph, count, folder, lambda task, index: places[task, index], **options)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("limit", ["any", "4%", 30, DEFAULT_LIMIT])
def test_a_verdict_on_what_the_parts_say_is_the_one_on_the_whole(
    seed: int, limit: str | int | DeadLetterLimit, tmp_path: Path
) -> None:
    dice = np.random.default_rng(seed)
    records: list[FirstBadRecord] = []
    graph, made = split(dice, tmp_path, on_first=records.append)
    whole = made.whole()
    head, one_place = (BadRecords(dead_letter_limit(limit)) for _ in range(2))
    for judge in (head, one_place):
        judge.began(decided_by(graph, {}))
    verdicts = set()
    while not made.turn():
        while records:
            head.met(records[0])
            one_place.met(records.pop(0))
        decided = add_decided(graph, [read_decided(part) for part in made.builds])
        assert decided == read_decided(whole)
        told = head.verdict({name: decided[name] for name in head.undecided}, stopping=False)
        verdict = one_place.verdict(read_decided(whole, one_place.undecided), stopping=False)
        assert str(told) == str(verdict)
        assert head.lines(decided) == one_place.lines(read_decided(whole))
        if verdict is not None:
            verdicts.add(type(verdict))
    assert bool(verdicts) == (limit in ("4%", 30))
    made.close()


def test_what_a_checkpoint_holds_is_judged_before_it_is_published(tmp_path: Path) -> None:
    graph, made = split(np.random.default_rng(1), tmp_path)
    made.run()
    contributions = [
        Contribution(
            counters={
                line.operator: {name: value for name, value in asdict(line).items() if name != "operator"}
                for line in read_ledger(part).operators
            },
            ended={name: item.ended for name, item in read_decided(part).items()},
        )
        for part in made.builds
    ]
    decided = decided_at(graph, contributions)
    assert decided == decided_at(graph, contributions, last=True) == read_decided(made.whole())
    # One place has contributed at its barrier, and its instances run on.
    contributions[0] = replace(contributions[0], ended={})
    running = {instance.nodes[0].name for instance in made.builds[0].instances}
    assert {name for name, item in decided_at(graph, contributions).items() if not item.all_ended} >= running
    assert all(item.all_ended for item in decided_at(graph, contributions, last=True).values())
    judge = BadRecords(dead_letter_limit(30))
    judge.met(FirstBadRecord("parse", "ValueError: bad", "", "", None, handled=False))
    verdict = judge.verdict(decided, stopping=False)
    assert verdict is not None and "'parse' cannot go on" in str(verdict)


def test_the_last_checkpoint_of_bounded_inputs_says_that_all_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload, taken = CutWriter.upload, []

    def uploaded(writer: CutWriter, epoch: int, cuts: Sequence[InstanceCut]) -> Contribution:
        taken.append(upload(writer, epoch, cuts))
        return taken[-1]

    monkeypatch.setattr(CutWriter, "upload", uploaded)
    job = ps.Job()
    rows = ps.read_memory([{"k": 1}, {"k": 2}], schema={"k": "int64"}, job=job).name("in")
    rows.key_by("k").agg(n=ps.count()).name("counted").write_black_hole(mode="changelog").name("out")
    job.run("ends", directory=tmp_path / "job", checkpoint_dir=tmp_path / "checkpoints", parallelism=2)
    decided = decided_at(job.plan(2), taken[-1:])
    assert decided["in"].rows == 2 and decided["counted"].instances == 2
    assert all(item.all_ended for item in decided.values())


def test_an_operator_has_ended_once_every_place_has_said_so(tmp_path: Path) -> None:
    job = ps.Job()
    pipeline(job)
    graph = job.plan(3)
    judge = BadRecords(DEFAULT_LIMIT)
    judge.met(FirstBadRecord("parse", "first", "", "", None, handled=False))
    judge.met(FirstBadRecord("parse", "second", "", "", None, handled=False))
    one, two = ({"parse": RowsDecided(2, 2, 0, count, count)} for count in (1, 2))
    assert judge.verdict(add_decided(graph, [one]), stopping=False) is None
    verdict = judge.verdict(add_decided(graph, [two, one]), stopping=False)
    assert verdict is not None and "every record it took in is bad, 4 so far; the first error: first" in str(verdict)
    assert judge.verdict(add_decided(graph, [two, one]), stopping=True) is None


def test_what_was_decided_before_a_restart_counts_once(tmp_path: Path) -> None:
    job = ps.Job()
    pipeline(job)
    graph = job.plan(1)
    judge = BadRecords(dead_letter_limit(10))
    judge.began(decided_by(graph, {"parse": {"rows_in": 100, "passed": 93, "dead_lettered": 7}}))
    judge.met(FirstBadRecord("parse", "first", "", "", None, handled=False))

    def seen(rows: int, rejected: int) -> dict[str, RowsDecided]:
        return {"parse": RowsDecided(rows, rejected, rows - rejected, 1, 0)}

    assert judge.verdict(seen(110, 10), stopping=False) is None
    [line] = judge.lines(seen(110, 10))
    assert (line.rows, line.rejected) == (10, 3)
    judge.ended(seen(112, 11))
    # A region that has no checkpoint begins with nothing.
    judge.began(decided_by(graph, {}, {task.id for task in graph.tasks}))
    assert judge.verdict(seen(20, 6), stopping=False) is None
    [line] = judge.lines(seen(20, 6))
    assert (line.rows, line.rejected) == (32, 10)
    assert judge.verdict(seen(21, 7), stopping=False) is not None


@pytest.mark.parametrize("seed", range(6))
def test_the_parts_are_at_rest_when_nothing_can_follow(seed: int, tmp_path: Path) -> None:
    """Parts are asked one after the other while elements are under way, which wake parts that have answered."""
    dice = np.random.default_rng(seed)
    graph, made = split(dice, tmp_path, keeps=True)
    idle = [False] * len(made.builds)
    asked: list[PartStatus] = []
    earlier: PartStatus | None = None
    rests = 0
    while rests < 3:
        number = int(dice.integers(len(idle) + 1))
        if number == len(idle):
            if made.under_way and dice.random() < 0.7:
                made.carry()
            continue
        worker = made.workers[number]
        idle[number] = not isinstance(worker.step(), Ran) and not worker.is_touched()
        if len(asked) == number:
            asked.append(
                read_status(
                    made.builds[number], idle=idle[number], sent=made.sent[number], received=made.received[number]
                )
            )
        if len(asked) < len(idle):
            continue
        status, asked = merge_statuses(graph, asked), []
        if earlier is not None and is_at_rest(earlier, status):
            assert not made.under_way
            assert all(not worker.is_touched() and not isinstance(worker.step(), Ran) for worker in made.workers)
            assert read_status(made.whole(), idle=True).exhausted
            rests += 1
        earlier = status
    made.close()


def test_who_waits_for_an_answer_is_not_at_rest() -> None:
    quiet = PartStatus()
    assert is_at_rest(quiet, quiet)
    for other in (PartStatus(unanswered=True), PartStatus(idle=False), PartStatus(exhausted=False), PartStatus(sent=1)):
        assert not is_at_rest(quiet, other)
    # Received behind the first look, and the answer to it may be under way.
    assert not is_at_rest(PartStatus(sent=4, received=4), PartStatus(sent=5, received=5))
