"""``make chaos``: the crash tests at the size that they have before a version, with their table.

The rows are those of docs/design/fault-tests.md 2. Every finished part is recorded in ``.chaos/``; started again, it
goes on where it stopped.
"""

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from penstock.chaos.child import Start, spawn
from penstock.chaos.experiment import ChaosReport
from tests.chaos import suites
from tests.chaos.attacks import PIPELINE, SMALL_STATE, Attacker
from tests.chaos.fork_server import ForkServer
from tests.chaos.full_disk import full_disk
from tests.chaos.kafka_attacks import commit_crashes, nexmark_kills, some_broker
from tests.chaos.kafka_errors import request_errors
from tests.chaos.kafka_faults import broker_restarts, zombies
from tests.chaos.kafka_links import slow_links
from tests.chaos.kafka_timeouts import timed_out_transactions
from tests.chaos.record import Part, Record

FILE = Path(".chaos") / "results.jsonl"
MINUTES = 90.0
RESCALED = (2, 3, 1)

Attack = Callable[[Path, Start, int], ChaosReport]
"""Takes a directory, what starts processes, and the seed."""


def _moments(folder: Path, start: Start, seed: int) -> ChaosReport:
    """Every other part with little memory."""
    state_bytes = SMALL_STATE if seed % 2 else None
    return Attacker(folder, start, 1_500_000, RESCALED, state_bytes=state_bytes).moments(50, seed)


def _fresh(folder: Path, start: Start, seed: int) -> ChaosReport:
    return Attacker(folder, spawn, 2_500_000, RESCALED, checkpoint_interval="1s").moments(10, seed)


def _every_point(folder: Path, start: Start, seed: int) -> ChaosReport:
    return Attacker(folder, start, 300_000, RESCALED, state_bytes=SMALL_STATE).every_point(seed)


def _before_commit(folder: Path, start: Start, seed: int) -> ChaosReport:
    return Attacker(folder, start, 1_000_000, RESCALED).before_commit(50, seed)


def _while_recovering(folder: Path, start: Start, seed: int) -> ChaosReport:
    return Attacker(folder, start, 1_000_000, RESCALED).while_recovering(25, seed)


def _damage(folder: Path, start: Start, seed: int) -> ChaosReport:
    return Attacker(folder, start, 1_000_000, RESCALED).damage(25, seed)


def _of_seed(of_seed: Callable[[int], ChaosReport]) -> Attack:
    def attack(folder: Path, start: Start, seed: int) -> ChaosReport:
        return of_seed(seed)

    return attack


def _full_disk(folder: Path, start: Start, seed: int) -> ChaosReport:
    return full_disk(folder, start, 500_000, seed * 1_500)


def _kafka_commit(folder: Path, start: Start, seed: int) -> ChaosReport:
    return commit_crashes(folder, 300_000, 50, seed)


def _kafka_nexmark(query: str, mode: str = "append") -> Attack:
    def attack(folder: Path, start: Start, seed: int) -> ChaosReport:
        return nexmark_kills(folder, query, mode, 300_000, 25, seed)

    return attack


def _broker_restarts(folder: Path, start: Start, seed: int) -> ChaosReport:
    return broker_restarts(folder, 300_000, 5, seed)


def _zombies(folder: Path, start: Start, seed: int) -> ChaosReport:
    with some_broker(folder) as bootstrap:
        return zombies(folder, bootstrap, 60_000, 10, seed)


def _timed_out(folder: Path, start: Start, seed: int) -> ChaosReport:
    with some_broker(folder) as bootstrap:
        return timed_out_transactions(folder, bootstrap, 60_000, 10, seed)


def _slow_links(folder: Path, start: Start, seed: int) -> ChaosReport:
    return slow_links(folder, 150_000, 300.0, seed)


def _request_errors(folder: Path, start: Start, seed: int) -> ChaosReport:
    return request_errors(folder, seed)


ROWS: Sequence[tuple[str, int, Attack]] = (
    ("R1 kill -9", 20, _moments),
    ("R2 S5 failpoints", 5, _every_point),
    ("R3 commit", 4, _before_commit),
    ("R8 recovery", 4, _while_recovering),
    ("S1 S2 damage", 8, _damage),
    ("S3 full disk", 20, _full_disk),
    ("R10 fresh process", 3, _fresh),
    ("M3 random settings", 10, _of_seed(suites.random_settings)),
    ("T2 any order", 1, _of_seed(suites.any_order)),
    ("S4 object store", 1, _of_seed(suites.object_store)),
    ("M1 model", 1, _of_seed(suites.machine)),
    ("M2 paged", 1, _of_seed(suites.paged_simulation)),
    ("R3k Kafka commit", 4, _kafka_commit),
    ("Kafka q5", 1, _kafka_nexmark("q5")),
    ("Kafka q8", 1, _kafka_nexmark("q8")),
    ("Kafka q11", 1, _kafka_nexmark("q11")),
    ("Kafka q4 upsert", 1, _kafka_nexmark("q4", "upsert")),
    ("Kafka q4 changelog", 1, _kafka_nexmark("q4", "changelog")),
    ("K1 broker restarts", 10, _broker_restarts),
    ("K2 zombies", 10, _zombies),
    ("K3 timed out", 2, _timed_out),
    ("K5 request errors", 1, _request_errors),
    ("K7 late EndTxn", 5, _of_seed(suites.late_ends)),
    ("N2 slow links", 1, _slow_links),
)
"""Name, number of parts, and what a part is. Sizes make each part take a few minutes at most."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is not done yet, as far as time allows, and print the table. Returns 1 if anything was not exact."""
    parser = argparse.ArgumentParser(prog="make chaos", description="Kill a pipeline thousands of times.")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="begin nothing after so long (default 90)")
    parser.add_argument("--rows", default="", help="only tests whose name begins so, with commas: R1,S")
    parser.add_argument("--fresh", action="store_true", help="forget what was done before")
    given = parser.parse_args(arguments)
    if given.fresh:
        shutil.rmtree(FILE.parent, ignore_errors=True)
    wanted = tuple(given.rows.split(","))
    attacks = {name: attack for name, _, attack in ROWS}
    parts = [Part(name, seed) for name, count, _ in ROWS if name.startswith(wanted) for seed in range(count)]
    record = Record(FILE)
    began = time.monotonic()
    with ForkServer(PIPELINE, ["20000"]) as server:
        for part in parts:
            if record.is_exact(part):
                continue
            since = time.monotonic()
            if since - began > given.minutes * 60:
                break
            with tempfile.TemporaryDirectory(prefix="penstock-chaos-") as folder:
                report = attacks[part.row](Path(folder), server.start, part.number)
            record.add(part, report, time.monotonic() - since)
            verdict = "exact" if report.exact else "NOT EXACT"
            print(f"{part.row}, part {part.number}: {report.kills} kills, {verdict}", file=sys.stderr, flush=True)
    return 0 if record.show(parts) else 1


if __name__ == "__main__":
    sys.exit(main())
