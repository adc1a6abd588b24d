"""What a script defines, and modules beside it, in another process."""

import subprocess
import sys
from pathlib import Path

from tests.engine.executors.managers.elsewhere import read_rows, run_elsewhere

SCRIPT = """
import asyncio, datetime, enum, functools, re, sys, typing
from dataclasses import dataclass
from pathlib import Path
import penstock as ps
from penstock import col
from penstock.engine.executors.embedded import EmbeddedJob
from penstock.engine.executors.managers.plan_parcel import pack_plan
from penstock.engine.jobs.attempt import JobPlan
from penstock.engine.plan.planner import plan
from penstock.model.config import LoopOptions
import shop_rules

FACTOR = 3
out = Path(sys.argv[1])

@dataclass
class Order:
    key: str
    value: int
    at: datetime.datetime

@dataclass
class Priced:
    key: str
    price: int

def orders():
    start = datetime.datetime(2026, 1, 1)
    for index in range(200):
        yield Order("abc"[index % 3], index, start + datetime.timedelta(seconds=index))

def priced(row):
    return Priced(row["key"], shop_rules.price(row["value"]) * FACTOR)

async def looked_up(row):
    await asyncio.sleep(0)
    return {"key": row["key"], "price": row["value"] + FACTOR}

class Running(ps.Process):
    total = ps.value_state(int, default=0)

    def process(self, row, context):
        self.total.set(self.total.get() + row["value"])
        yield Priced(context.key, self.total.get())

Number = typing.NewType("Number", int)
P = typing.ParamSpec("P")
T = typing.TypeVar("T")
LETTERS = re.compile("[ab]")

class Size(enum.Enum):
    SMALL = 0
    LARGE = 1

@functools.cache
def fibonacci(number: Number) -> int:
    return number if number < 2 else fibonacci(number - 1) + fibonacci(number - 2)

def plain(function: typing.Callable[P, T]) -> typing.Callable[P, T]:
    @functools.wraps(function)
    def inner(*args: P.args, **options: P.kwargs) -> T:
        return function(*args, **options)
    return inner

class Prices:
    def __init__(self, more):
        self.more = more

    @functools.cached_property
    def table(self):
        return {Size.SMALL: self.more, Size.LARGE: self.double(self.more)}

    @staticmethod
    def double(value):
        return value * 2

class Dearer(Prices):
    def of(self, value):
        return super().double(self.table[Size(value % 2)]) + fibonacci(value % 20)

DEARER = Dearer(7)

@plain
def dear(row):
    key = row["key"] if LETTERS.match(row["key"]) else "other"
    print(key, file=sys.stderr)
    return Priced(key, DEARER.of(row["value"]))

def build(job, where):
    source = ps.read_iterable(orders, schema=Order, time="at", job=job)
    source.map(dear, schema=Priced).write_parquet(where / "dear")
    source.map(priced, schema=Priced).write_parquet(where / "mapped")
    source.map_async(looked_up, schema=Priced).write_parquet(where / "async")
    source.key_by("key").process(Running(), schema=Priced).write_parquet(where / "process")
    doubled = source.filter(lambda row: row["value"] % 2 == 0).flat_map(lambda row: [row, row])
    doubled.key_by("key").reduce(lambda older, newer: newer).write_parquet(where / "reduced", mode="changelog")
    names = [{"key": "a", "name": "A"}, {"key": "b", "name": "B"}]
    source.lookup(ps.lookup_table(lambda: names), on="key").write_parquet(where / "looked up")
    source.map_batches(lambda rows: rows.slice(0, 1), schema=Order).write_parquet(where / "batches")
    sums = source.key_by("key").window(ps.tumbling("20s")).agg(total=ps.sum_("value"))
    counts = source.key_by("key").window(ps.tumbling("20s")).agg(n=ps.count())
    sums.join(counts, on=["key", "window_start"]).write_parquet(where / "joined", mode="changelog")
    other = source.select("key", "at", other="value")
    source.join(other, on="key", window=ps.tumbling("5s")).write_parquet(where / "window join")

for place in ("here", "there"):
    job = ps.Job()
    build(job, out / place)
    made = JobPlan("script", plan(job.graph, 2, apart=True), LoopOptions(batch_rows=32), out / "job" / place)
    if place == "here":
        EmbeddedJob(made).run()
    else:
        (out / "parcel").write_bytes(pack_plan(made))
"""


def test_what_a_script_defines_goes_along_and_modules_beside_it_are_found(tmp_path: Path) -> None:
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    (scripts / "app.py").write_text(SCRIPT)
    (scripts / "shop_rules.py").write_text("def price(value):\n    return value * 2\n")
    ran = subprocess.run(
        [sys.executable, str(scripts / "app.py"), str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    run_elsewhere([tmp_path / "parcel"], [str(scripts), *sys.path])
    outputs = sorted(path.name for path in (tmp_path / "here").iterdir())
    assert len(outputs) == 9
    for name in outputs:
        here, there = read_rows(tmp_path / "here" / name), read_rows(tmp_path / "there" / name)
        assert here.num_rows
        assert sorted(map(repr, there.to_pylist())) == sorted(map(repr, here.to_pylist())), name
