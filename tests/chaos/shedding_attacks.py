"""A job that sheds, killed again and again: what it has committed is what its log says was kept, and nothing else.

Everything is real: a broker, processes, SIGKILL (docs/design/fault-tests.md R11). What each query must have written is
computed by DuckDB, from the messages and the log; so is what the account says was shed. Called by the tests with few
kills, and by ``make chaos`` with many.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from secrets import token_hex
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from confluent_kafka import Producer

from penstock.chaos.child import Start
from penstock.chaos.compared_outputs import Outputs, Rows
from penstock.chaos.experiment import ChaosError, ChaosOptions, ChaosReport
from penstock.chaos.head_trials import chaos_of
from penstock.engine.checkpoint.kept_files import KEPT, read_kept_files
from penstock.engine.connectors.kafka.admin import create_topic, delete_topics
from penstock.engine.connectors.kafka.settings import KafkaSettings
from penstock.engine.executors.simulation.kept_rows import logged_steps
from penstock.model.job_graph import SinkSpec
from penstock.model.keep_rates import STEPS
from penstock.shedding.kept_log import Stretch, decode_kept_log
from penstock.state.checkpoints.manifest import LAST_EPOCH
from penstock.state.files.local_files import LocalFiles
from tests.chaos.fork_server import ForkServer
from tests.chaos.kafka_outputs import KEEP, PARTITIONS, committed_messages, committed_rows
from tests.chaos.shedding_pipeline import MINIMUM, WINDOW_MS, build, strata_of

PIPELINE = Path(__file__).with_name("shedding_pipeline.py")
INTERVAL = "50ms"
BATCH_ROWS = 512
RESCALED = (2, 3, 1)
SHOPS = 17
BEGIN_MS = 1_700_000_000_000

ANSWERS = {
    "rows": "SELECT part, place, rate AS accuracy FROM kept",
    "totals": "SELECT shop, {figures} FROM kept GROUP BY shop",
    "windows": f"SELECT shop, at_ms // {WINDOW_MS} AS number, {{figures}} FROM kept GROUP BY ALL",
}
"""What each query makes of the rows that it keeps."""

_FIGURES = (
    "round_even(sum(1 / rate), 0)::BIGINT AS n, sum(paid / rate) AS paid, "
    "round(count(*) / sum(1 / rate), 12) AS accuracy"
)


@dataclass(frozen=True, slots=True)
class Orders:
    """Messages in a topic, and the same as a table."""

    broker: str
    topic: str
    table: pa.Table


def make_orders(broker: str, count: int) -> Orders:
    """Write ``count`` messages for each partition of a new topic, whose keys are their shops."""
    topic = f"orders-{token_hex(4)}"
    create_topic(KafkaSettings(broker), topic, PARTITIONS, KEEP)
    # In the order of their times, also where the broker has to be asked again.
    most = {"queue.buffering.max.messages": PARTITIONS * count}
    producer = Producer({"bootstrap.servers": broker, "linger.ms": 5, "enable.idempotence": True, **most})
    for place in range(count):
        for part in range(PARTITIONS):
            value = b'{"shop":%d,"paid":%.3f}' % (_shop(place, part), _paid(place, part))
            producer.produce(topic, value, _key(_shop(place, part)), partition=part, timestamp=BEGIN_MS + place)
    assert producer.flush(60) == 0
    places, parts = np.divmod(np.arange(count * PARTITIONS), PARTITIONS)
    return Orders(
        broker,
        topic,
        pa.table(
            {
                "part": parts,
                "place": places,
                "shop": _shop(places, parts),
                "paid": _paid(places, parts),
                "at_ms": BEGIN_MS + places,
            }
        ),
    )


def _shop(place: Any, part: Any) -> Any:
    return (place * 7 + part * 5) % SHOPS


def _key(shop: int) -> bytes:
    return b"%d" % shop


def _paid(place: Any, part: Any) -> Any:
    return (place * 31 + part) % 1_000 / 8


def kept_rows(orders: Orders, folder: Path, summary: Mapping[str, Any]) -> Mapping[str, Rows]:
    """Return what each sink of a run must have written by its log.

    Raises:
        ChaosError: the run's account is not that of its messages and its log.
    """
    (checkpoints,) = [found for found in (folder / "checkpoints").iterdir() if found.is_dir()]
    files = LocalFiles(checkpoints)
    log = read_kept_files(files, LAST_EPOCH)
    seeds = {decode_kept_log(files.read(f"{KEPT}/{name}"))[1] for name in files.list(KEPT)}
    if len(seeds) > 1:
        raise ChaosError(f"the log of one job has the seeds {sorted(seeds)}")
    answers = _answers(orders, log, seeds.pop() if seeds else 0)
    (shed,) = answers.pop("shed").to_pylist()
    account = {"rows_in": summary["rows_in"], "shed": summary["shed"]}
    if account != {"rows_in": orders.table.num_rows, **shed}:
        raise ChaosError(f"{orders.table.num_rows} messages were there and {shed} of them dropped, but not {account}")
    return {f"{query} out": Counter(map(_row, answer.to_pylist())) for query, answer in answers.items()}


def _answers(orders: Orders, log: Sequence[Stretch], seed: int) -> dict[str, pa.Table]:
    steps = np.empty(orders.table.num_rows, np.uint8)
    parts, shops = (orders.table.column(name).to_numpy() for name in ("part", "shop"))
    for part in range(PARTITIONS):
        mine = [item for item in log if item.partition == part]
        keys = [_key(shop) for shop in shops[parts == part].tolist()]
        steps[parts == part], _ = logged_steps(seed, f"{orders.topic}/{part}", mine, len(keys), keys)
    schema = pa.schema([("part", pa.int64()), ("start", pa.int64()), ("stop", pa.int64()), ("keep", pa.float64())])
    for query in MINIMUM:
        schema = schema.append(pa.field(query, pa.float64()))
    stretches = pa.Table.from_pylist([_rates(item) for item in log], schema)
    with duckdb.connect() as database:
        database.register("orders", orders.table.append_column("step", pa.array(steps)))
        database.register("stretches", stretches)
        # What no line of the log is about was read while no rate was set.
        rates = ", ".join(f"if(place < stop, {name}, 1.0) AS {name}" for name in ("keep", *MINIMUM))
        database.execute(
            f"CREATE TABLE rated AS SELECT orders.*, {rates} FROM orders ASOF LEFT JOIN stretches "
            "ON orders.part = stretches.part AND orders.place >= stretches.start"
        )
        database.execute(f"CREATE TABLE read AS SELECT * FROM rated WHERE step < keep * {STEPS}")
        beyond = " + ".join(f"count(*) FILTER (step >= {query} * {STEPS})" for query in MINIMUM)
        shed = f"SELECT (SELECT count(*) FROM rated) - count(*) + {beyond} AS shed FROM read"
        answers = {"shed": database.sql(shed).to_arrow_table()}
        for query, answer in ANSWERS.items():
            kept = f"WITH kept AS (SELECT *, {query} AS rate FROM read WHERE step < {query} * {STEPS})"
            answers[query] = database.sql(f"{kept} {answer.format(figures=_FIGURES)}").to_arrow_table()
    return answers


def _rates(item: Stretch) -> dict[str, Any]:
    beyond = {query: item.branches.get(f"orders read>{query}", item.keep) for query in MINIMUM}
    return {"part": item.partition, "start": item.start, "stop": item.stop, "keep": item.keep, **beyond}


def _row(row: Mapping[str, Any]) -> bytes:
    return json.dumps({name: row[name] for name in sorted(row)}).encode()


class QueryTopics(Outputs):
    """Every run writes topics of its own, one for each query."""

    def __init__(self, broker: str) -> None:
        """Create nothing yet."""
        self._settings, self._prefix = KafkaSettings(broker), f"shed-{token_hex(4)}"
        self._made: list[str] = []

    def options(self, folder: Path) -> Sequence[str]:
        """Ask for checkpoints: there is no writing exactly once without them."""
        return [f"--checkpoint-dir={folder / 'checkpoints'}"]

    def arguments(self, folder: Path) -> Sequence[str]:
        """Name the topics and the job's directory."""
        topics = [self._topic(folder, query) for query in MINIMUM]
        for topic in topics:
            if topic not in self._made:
                create_topic(self._settings, topic, PARTITIONS, KEEP)
                self._made.append(topic)
        return [",".join(topics), str(folder / "job")]

    def read(self, folder: Path, name: str, sink: SinkSpec) -> Rows:
        """Return what is committed in the topic of a query, without the intervals."""
        topic = self._topic(folder, name.removesuffix(" out"))
        rows: Rows = Counter()
        for row, times in committed_rows(sink.mode, committed_messages(self._settings, topic, PARTITIONS)).items():
            rows[_told(row)] += times
        return rows

    def _topic(self, folder: Path, query: str) -> str:
        return f"{self._prefix}-{folder.name}-{query}"

    def close(self) -> None:
        """Delete the topics."""
        delete_topics(self._settings, self._made)
        self._made.clear()


def _told(written: bytes) -> bytes:
    """Return a row as `_row` does: without its interval, which the answers do not have."""
    row = json.loads(written)
    if row.pop("biased"):
        raise ChaosError(f"what has an estimator is biased: {written!r}")
    if "window_start" in row:
        row["number"] = round(datetime.fromisoformat(row["window_start"]).timestamp() * 1_000) // WINDOW_MS
    told = {name: value for name, value in row.items() if not name.startswith(("n_", "paid_", "window_"))}
    # A whole number is written without a point.
    return _row(told | {name: float(told[name]) for name in ("accuracy", "paid") if name in told})


class SheddingAttacker:
    """Attacks the pipeline over the same messages; every attack has its own directory below ``folder``."""

    def __init__(self, folder: Path, start: Start, orders: Orders) -> None:
        """Every life of the job comes from ``start``."""
        self._folder, self._start, self._orders = folder, start, orders

    def moments(
        self,
        kills: int,
        seed: int,
        *,
        way: str = "sheds",
        look: Callable[[Path, Sequence[str]], None] = lambda folder, arguments: None,
        **options: Any,
    ) -> ChaosReport:
        """R11: the command or, on an executor that has them, task managers die at seeded moments.

        ``way``: see `shedding_pipeline`. ``look`` is called with the folder of each run that has ended, and what names
        its outputs, while these are there.
        """
        orders, outputs = self._orders, QueryTopics(self._orders.broker)

        def expected(folder: Path, summary: Mapping[str, Any]) -> Mapping[str, Rows]:
            look(folder, outputs.arguments(folder))
            return kept_rows(orders, folder, summary)

        chosen = replace(
            ChaosOptions(kills, seed, **options),
            checkpoint_interval=INTERVAL,
            parallelism=RESCALED,
            arguments=(orders.broker, orders.topic, way),
            batch_rows=BATCH_ROWS,
        )
        job = build(orders.broker, orders.topic, list(MINIMUM), strata_of(way))
        try:
            return chaos_of(chosen, job.graph)(
                PIPELINE,
                job,
                chosen,
                self._folder / f"kills-{seed}",
                self._start,
                outputs=outputs,
                expected=expected,
            ).run()
        finally:
            outputs.close()


@contextmanager
def shedding_lives(orders: Orders) -> Iterator[Start]:
    """Yield what starts lives of the pipeline, with its kernels loaded."""
    with ForkServer(PIPELINE, [orders.broker, orders.topic, "whole", "a,b,c", "."]) as server:
        yield server.start
