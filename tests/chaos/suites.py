"""Rows of `make chaos` that are tests run longer, or under settings of a seed: M1, M2, M3, T2, S4, K7.

The ids are those of docs/design/fault-tests.md 2. They need the checkout: ``make chaos`` runs in it.
"""

import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from penstock.chaos.experiment import ChaosReport

LONGEST_S = 3_600.0
TESTS = Path("tests")

UNDER_RANDOM_SETTINGS = (
    "tests/penstock/dsl/test_job.py",
    "tests/penstock/dsl/test_sinks.py",
    "tests/penstock/dsl/test_stream.py",
    "tests/penstock/dsl/test_over_updating.py",
    "tests/penstock/dsl/test_updating_windows.py",
    "tests/penstock/dsl/test_moved_times.py",
    "tests/penstock/dsl/test_process.py",
    "tests/penstock/dsl/test_map_async.py",
    "tests/engine/connectors",
    "tests/engine/operators/aggregates/test_window_aggregate.py",
    "tests/engine/operators/aggregates/test_session_aggregate.py",
    "tests/engine/operators/aggregates/test_group_aggregate.py",
    "tests/engine/operators/joins/test_incremental_join_streams.py",
    "tests/engine/operators/ranking/test_top_streams.py",
    "tests/engine/operators/joins/test_interval_join_sql.py",
    "tests/engine/operators/joins/test_asof_join_sql.py",
    "tests/end_to_end/test_any_order.py",
    "tests/end_to_end/test_begin_elsewhere.py",
    "tests/end_to_end/test_dead_letter_stream.py",
    "tests/end_to_end/test_interleaving.py",
)
"""Tests that run jobs and start no process."""


def suite(arguments: Sequence[str], environment: Mapping[str, str], seed: int) -> ChaosReport:
    """Run tests in a process of their own; ``runs`` of the report are those that passed."""
    report = ChaosReport(seed=seed)
    if not TESTS.is_dir():
        report.failure = "there is no folder tests here: run it from a checkout"
        return report
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short", *arguments]
    try:
        ran = subprocess.run(
            command, env={**os.environ, **environment}, capture_output=True, text=True, check=False, timeout=LONGEST_S
        )
    except subprocess.TimeoutExpired:
        report.failure = f"the tests take longer than {LONGEST_S:.0f} s"
        return report
    passed = re.search(r"(\d+) passed", ran.stdout)
    report.runs = int(passed.group(1)) if passed else 0
    if ran.returncode:
        failed = re.findall(r"^(?:FAILED|ERROR) .*", ran.stdout, re.MULTILINE)
        report.failure = "; ".join(failed) or ran.stdout[-500:] + ran.stderr[-500:]
    return report


def random_settings(seed: int) -> ChaosReport:
    """M3: under the settings that the seed draws."""
    return suite([*UNDER_RANDOM_SETTINGS, f"--random-settings={seed}"], {}, seed)


def any_order(seed: int) -> ChaosReport:
    """T2: 10,000 examples."""
    return suite(["tests/end_to_end/test_any_order.py"], {"PENSTOCK_ORDER_EXAMPLES": "1250"}, seed)


def object_store(seed: int) -> ChaosReport:
    """S4: 500 faults of a store that speaks S3."""
    return suite(["tests/contracts/test_s3.py"], {"PENSTOCK_S3_FAULTS": "500"}, seed)


def paged_simulation(seed: int) -> ChaosReport:
    """M2 with state in pages."""
    return suite(["tests/engine/executors/test_simulated_pages.py"], {"PENSTOCK_PAGED_SEEDS": "12"}, seed)


def late_ends(seed: int) -> ChaosReport:
    """K7: ten ends of transactions that come 5 to 60 s late."""
    environment = {"PENSTOCK_KAFKA_DELAYS": "10", "PENSTOCK_KAFKA_SEED": str(seed)}
    return suite(["tests/kafka/test_delayed_end_txn.py"], environment, seed)


def machine(seed: int) -> ChaosReport:
    """M1: 10,000 examples of 50 actions."""
    return suite(["tests/engine/executors/test_simulated_machine.py"], {"PENSTOCK_MACHINE_EXAMPLES": "10000"}, seed)
