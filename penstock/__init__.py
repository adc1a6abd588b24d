"""Penstock: stream processing in Python that keeps its promises under overload.

The names below are the public ones. Each is imported from its module when it is first used, so that
``import penstock`` and ``penstock --help`` cost next to nothing.
"""

import difflib
import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

__all__ = [
    "ENDED",
    "NOTHING",
    "BadRecordError",
    "BatchProcess",
    "BugError",
    "CheckpointError",
    "DeadLetterLimitError",
    "ExpressionError",
    "FatalError",
    "FencedError",
    "Handle",
    "InUseError",
    "Job",
    "JobMetrics",
    "NexmarkConfig",
    "NumericOverflowError",
    "OptionError",
    "PenstockError",
    "PlanError",
    "Process",
    "RawRecord",
    "Read",
    "Reader",
    "Result",
    "RetryableError",
    "SchemaError",
    "Sink",
    "SinkHandle",
    "Source",
    "StateBudgetError",
    "Stream",
    "UserAggregate",
    "UserError",
    "WindowAssigner",
    "Writer",
    "aggregate",
    "approx_count_distinct",
    "approx_quantile",
    "arg_max",
    "arg_min",
    "coalesce",
    "col",
    "collect_list",
    "concat",
    "count",
    "count_distinct",
    "count_window",
    "explain",
    "first",
    "global_window",
    "hash_",
    "hopping",
    "join",
    "last",
    "list_state",
    "lit",
    "lookup_table",
    "map_state",
    "max_",
    "mean",
    "min_",
    "nullif",
    "read",
    "read_checkpoint",
    "read_csv",
    "read_iterable",
    "read_json",
    "read_kafka",
    "read_memory",
    "read_nexmark",
    "read_parquet",
    "reducing_state",
    "run",
    "session",
    "sliding",
    "sql",
    "start",
    "stddev",
    "sum_",
    "tumbling",
    "value_state",
    "variance",
    "when",
]

_MODULES = {
    "engine.connectors.nexmark.config": "NexmarkConfig",
    "engine.checkpoint.reader": "read_checkpoint",
    "engine.jobs.metrics": "JobMetrics",
    "model.aggregates": "UserAggregate",
    "model.connectors": "ENDED NOTHING RawRecord Read Reader Sink Source Writer",
    "model.errors": (
        "BadRecordError BugError CheckpointError DeadLetterLimitError ExpressionError FatalError FencedError "
        "InUseError NumericOverflowError OptionError PenstockError PlanError RetryableError SchemaError "
        "StateBudgetError UserError"
    ),
    "model.expression_functions": "coalesce concat hash_ nullif when",
    "model.expressions": "col lit",
    "model.process": "BatchProcess Process",
    "model.process_states": "list_state map_state reducing_state value_state",
    "model.sql_reader": "sql",
    "model.windows": "WindowAssigner",
    "dsl.aggregates": (
        "aggregate approx_count_distinct approx_quantile arg_max arg_min collect_list count count_distinct "
        "first last max_ mean min_ stddev sum_ variance"
    ),
    "dsl.job": "Handle Job run start",
    "dsl.join_verbs": "join",
    "dsl.kafka": "read_kafka",
    "dsl.lookup_tables": "lookup_table",
    "plan_views.text": "explain",
    "dsl.readers": "read read_csv read_iterable read_json read_memory read_nexmark read_parquet",
    "dsl.sinks": "Result SinkHandle",
    "dsl.stream": "Stream",
    "dsl.windows": "count_window global_window hopping session sliding tumbling",
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    """Import a public name from where it lives."""
    if name not in _MODULE_OF:
        from penstock.model.name_hints import MODULE

        close = difflib.get_close_matches(name, __all__, 1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        if name in MODULE:
            hint = f": use {MODULE[name]}"
        raise AttributeError(f"module 'penstock' has no attribute {name!r}{hint}")
    value = getattr(importlib.import_module(f"penstock.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names."""
    return list(__all__)


if TYPE_CHECKING:
    from penstock.dsl.aggregates import (
        aggregate,
        approx_count_distinct,
        approx_quantile,
        arg_max,
        arg_min,
        collect_list,
        count,
        count_distinct,
        first,
        last,
        max_,
        mean,
        min_,
        stddev,
        sum_,
        variance,
    )
    from penstock.dsl.job import Handle, Job, run, start
    from penstock.dsl.join_verbs import join
    from penstock.dsl.kafka import read_kafka
    from penstock.dsl.lookup_tables import lookup_table
    from penstock.dsl.readers import (
        read,
        read_csv,
        read_iterable,
        read_json,
        read_memory,
        read_nexmark,
        read_parquet,
    )
    from penstock.dsl.sinks import Result, SinkHandle
    from penstock.dsl.stream import Stream
    from penstock.dsl.windows import (
        count_window,
        global_window,
        hopping,
        session,
        sliding,
        tumbling,
    )
    from penstock.engine.checkpoint.reader import read_checkpoint
    from penstock.engine.connectors.nexmark.config import NexmarkConfig
    from penstock.engine.jobs.metrics import JobMetrics
    from penstock.model.aggregates import UserAggregate
    from penstock.model.connectors import (
        ENDED,
        NOTHING,
        RawRecord,
        Read,
        Reader,
        Sink,
        Source,
        Writer,
    )
    from penstock.model.errors import (
        BadRecordError,
        BugError,
        CheckpointError,
        DeadLetterLimitError,
        ExpressionError,
        FatalError,
        FencedError,
        InUseError,
        NumericOverflowError,
        OptionError,
        PenstockError,
        PlanError,
        RetryableError,
        SchemaError,
        StateBudgetError,
        UserError,
    )
    from penstock.model.expression_functions import coalesce, concat, hash_, nullif, when
    from penstock.model.expressions import col, lit
    from penstock.model.process import BatchProcess, Process
    from penstock.model.process_states import list_state, map_state, reducing_state, value_state
    from penstock.model.sql_reader import sql
    from penstock.model.windows import WindowAssigner
    from penstock.plan_views.text import explain
