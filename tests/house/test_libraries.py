"""Heavy libraries are imported only where the house allows them."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

ALLOWED = {
    "sqlglot": ("model/", "engine/expressions/", "engine/connectors/parquet/statistics_filter.py", "replay/"),
    "numba": ("state/", "engine/", "penstock/commands/kernel_types.py"),
    "rocksdict": ("state/stores/rocksdb_store.py", "benchmarks/state/bare.py"),
    "ray": ("engine/executors/ray/", "penstock/cluster/"),
    "fastavro": ("engine/connectors/kafka/formats/avro",),
    "google": ("engine/connectors/kafka/formats/protobuf",),
    "confluent_kafka": ("engine/connectors/kafka", "replay/", "benchmarks/kafka/"),
    "pyspark": ("replay/", "benchmarks/replay/"),
    "duckdb": (
        "benchmarks/peers/", "benchmarks/replay/", "penstock/doctor/environment.py", "penstock/commands/state_sql.py",
    ),
    "polars": ("benchmarks/peers/", "engine/operators/functions/batch_function.py"),
    "pandas": ("engine/operators/functions/batch_function.py",),
    "datafusion": ("benchmarks/peers/",),
    "prometheus_client": ("penstock/metrics/", "penstock/http_api/handlers.py"),
    "starlette": ("penstock/http_api/",),
    "uvicorn": ("penstock/http_api/server.py",),
    "datasketches": ("engine/accumulators/",),
    "psutil": ("penstock/", "engine/", "benchmarks/"),
    "rich": ("penstock/", "benchmarks/"),
    "typer": ("penstock/", "replay/", "benchmarks/nexmark/command.py", "benchmarks/papers/command.py"),
    "msgspec": (
        "state/tables/image.py", "state/checkpoints/", "state/leases/run_records.py", "engine/connectors/",
        "engine/restore/source_positions.py", "engine/dataflow/source_head.py",
        "engine/dataflow/partition_handover.py", "engine/paging/part_files.py", "engine/paging/bucket_pages.py",
        "engine/paging/bucket_files.py",
        "engine/executors/managers/", "penstock/", "replay/archive_manifest.py",
    ),
}  # fmt: skip
FORBIDDEN_BELOW_THE_SHELLS = ("pickle", "cloudpickle", "random")
UNPICKLES = "engine/executors/managers/plan_parcel.py"
MODEL_MAY_IMPORT = {"sqlglot", "pyarrow", "numpy"}
LAYERS = ("model", "state", "shedding", "scheduler", "engine", "penstock", "replay", "benchmarks")


def imports() -> Iterator[tuple[str, str]]:
    """Yield (file, top-level module) of every import in our packages."""
    for layer in LAYERS:
        for path in (ROOT / layer).rglob("*.py"):
            name = path.relative_to(ROOT).as_posix()
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Import):
                    yield from ((name, item.name.split(".")[0]) for item in node.names)
                elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                    yield name, node.module.split(".")[0]


def test_libraries_stay_in_their_column() -> None:
    strays = [
        (name, module) for name, module in imports() if module in ALLOWED and not name.startswith(ALLOWED[module])
    ]
    assert strays == []


WITHOUT_RAY = """
import sys
import penstock as ps
from penstock.commands.cli import app
rows = ps.read_memory([{"id": 1}]).collect()
ps.run("small", directory=sys.argv[1], executor=sys.argv[2])
print("ray" in sys.modules, len(rows.rows()))
"""


@pytest.mark.parametrize("executor", ["embedded", "processes"])
def test_nothing_imports_ray_but_its_executor(tmp_path: Path, executor: str) -> None:
    command = [sys.executable, "-c", WITHOUT_RAY, str(tmp_path), executor]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ran.stdout == "False 1\n"


def test_the_model_stays_light() -> None:
    heavy = {
        (name, module)
        for name, module in imports()
        if name.startswith("model/") and module not in MODEL_MAY_IMPORT | {"penstock"} | set(sys.stdlib_module_names)
    }
    assert heavy == set()


def test_no_pickle_and_no_global_randomness() -> None:
    strays = [(name, module) for name, module in imports() if module in FORBIDDEN_BELOW_THE_SHELLS]
    assert strays == [(UNPICKLES, "pickle"), (UNPICKLES, "cloudpickle")]


def test_no_clock_and_no_sleep_below_the_shells() -> None:
    shells = ("engine/core/clock.py", "penstock/", "benchmarks/", "engine/executors/embedded.py")
    strays = [(name, module) for name, module in imports() if module == "time" and not name.startswith(shells)]
    assert strays == []
