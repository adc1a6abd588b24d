"""What the command ``memory`` is asked for, and what it prints; `jobs_client` asks the job."""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict

from penstock.engine.jobs.running_memory import MemorySummary
from penstock.model.byte_counts import to_bytes
from penstock.model.errors import OptionError
from penstock.tables import Column, bytes_text, print_table

PROGRAM = "program"
"""The word for the memory that a job's program gives an operator."""


def read_budgets(texts: Sequence[str]) -> dict[str, int | None]:
    """Return the bytes of each operator by name; None: as the program says.

    Raises:
        OptionError: one is not of the form OPERATOR=BYTES.
    """
    budgets: dict[str, int | None] = {}
    for text in texts:
        name, sign, size = text.rpartition("=")
        if not sign or not name:
            raise OptionError(f"say OPERATOR=BYTES, as count=128MB, or OPERATOR={PROGRAM}; not {text!r}")
        budgets[name] = None if size == PROGRAM else to_bytes(size, f"the memory of {name!r}")
    return budgets


def print_memory(job: str, memory: MemorySummary, *, as_json: bool) -> None:
    """Print a line for each operator whose state lies by keys, and the sum."""
    if as_json:
        print(json.dumps({"job": job, **asdict(memory)}))
        return
    columns = [Column("operator", figures=False), Column("instances"), Column("before"), Column("memory of each")]
    lines = [
        [item.operator, str(item.instances), _text(item.before_bytes), _text(item.after_bytes)]
        for item in memory.operators
    ]
    print_table(columns, lines, stream=sys.stdout)
    quota = "" if memory.quota_bytes is None else f" of {bytes_text(memory.quota_bytes)}"
    print(f"{job}: {bytes_text(memory.total_bytes)}{quota} in all")


def _text(size: int | None) -> str:
    return "unbounded" if size is None else bytes_text(size)
