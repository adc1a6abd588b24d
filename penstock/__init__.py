"""Penstock: stream processing in Python that keeps its promises under overload.

The names below are the public ones. Each is imported from its module when it is first used, so that
``import penstock`` and ``penstock --help`` cost next to nothing.
"""

import difflib
import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_MODULES = {
    "engine.connectors.nexmark.config": "NexmarkConfig",
    "engine.checkpoint.reader": "read_checkpoint",
    "engine.jobs.metrics": "JobMetrics",
    "model.aggregates": "UserAggregate",
    "model.connectors": "ENDED NOTHING RawRecord Read Reader Sink Source Writer",
    "model.control": "Control",
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
    "dsl.handle": "Handle",
    "dsl.job": "Job run start",
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
__all__ = sorted(_MODULE_OF)


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
    from penstock.dsl.aggregates import aggregate as aggregate
    from penstock.dsl.aggregates import approx_count_distinct as approx_count_distinct
    from penstock.dsl.aggregates import approx_quantile as approx_quantile
    from penstock.dsl.aggregates import arg_max as arg_max
    from penstock.dsl.aggregates import arg_min as arg_min
    from penstock.dsl.aggregates import collect_list as collect_list
    from penstock.dsl.aggregates import count as count
    from penstock.dsl.aggregates import count_distinct as count_distinct
    from penstock.dsl.aggregates import first as first
    from penstock.dsl.aggregates import last as last
    from penstock.dsl.aggregates import max_ as max_
    from penstock.dsl.aggregates import mean as mean
    from penstock.dsl.aggregates import min_ as min_
    from penstock.dsl.aggregates import stddev as stddev
    from penstock.dsl.aggregates import sum_ as sum_
    from penstock.dsl.aggregates import variance as variance
    from penstock.dsl.handle import Handle as Handle
    from penstock.dsl.job import Job as Job
    from penstock.dsl.job import run as run
    from penstock.dsl.job import start as start
    from penstock.dsl.join_verbs import join as join
    from penstock.dsl.kafka import read_kafka as read_kafka
    from penstock.dsl.lookup_tables import lookup_table as lookup_table
    from penstock.dsl.readers import read as read
    from penstock.dsl.readers import read_csv as read_csv
    from penstock.dsl.readers import read_iterable as read_iterable
    from penstock.dsl.readers import read_json as read_json
    from penstock.dsl.readers import read_memory as read_memory
    from penstock.dsl.readers import read_nexmark as read_nexmark
    from penstock.dsl.readers import read_parquet as read_parquet
    from penstock.dsl.sinks import Result as Result
    from penstock.dsl.sinks import SinkHandle as SinkHandle
    from penstock.dsl.stream import Stream as Stream
    from penstock.dsl.windows import count_window as count_window
    from penstock.dsl.windows import global_window as global_window
    from penstock.dsl.windows import hopping as hopping
    from penstock.dsl.windows import session as session
    from penstock.dsl.windows import sliding as sliding
    from penstock.dsl.windows import tumbling as tumbling
    from penstock.engine.checkpoint.reader import read_checkpoint as read_checkpoint
    from penstock.engine.connectors.nexmark.config import NexmarkConfig as NexmarkConfig
    from penstock.engine.jobs.metrics import JobMetrics as JobMetrics
    from penstock.model.aggregates import UserAggregate as UserAggregate
    from penstock.model.connectors import ENDED as ENDED
    from penstock.model.connectors import NOTHING as NOTHING
    from penstock.model.connectors import RawRecord as RawRecord
    from penstock.model.connectors import Read as Read
    from penstock.model.connectors import Reader as Reader
    from penstock.model.connectors import Sink as Sink
    from penstock.model.connectors import Source as Source
    from penstock.model.connectors import Writer as Writer
    from penstock.model.control import Control as Control
    from penstock.model.errors import BadRecordError as BadRecordError
    from penstock.model.errors import BugError as BugError
    from penstock.model.errors import CheckpointError as CheckpointError
    from penstock.model.errors import DeadLetterLimitError as DeadLetterLimitError
    from penstock.model.errors import ExpressionError as ExpressionError
    from penstock.model.errors import FatalError as FatalError
    from penstock.model.errors import FencedError as FencedError
    from penstock.model.errors import InUseError as InUseError
    from penstock.model.errors import NumericOverflowError as NumericOverflowError
    from penstock.model.errors import OptionError as OptionError
    from penstock.model.errors import PenstockError as PenstockError
    from penstock.model.errors import PlanError as PlanError
    from penstock.model.errors import RetryableError as RetryableError
    from penstock.model.errors import SchemaError as SchemaError
    from penstock.model.errors import StateBudgetError as StateBudgetError
    from penstock.model.errors import UserError as UserError
    from penstock.model.expression_functions import coalesce as coalesce
    from penstock.model.expression_functions import concat as concat
    from penstock.model.expression_functions import hash_ as hash_
    from penstock.model.expression_functions import nullif as nullif
    from penstock.model.expression_functions import when as when
    from penstock.model.expressions import col as col
    from penstock.model.expressions import lit as lit
    from penstock.model.process import BatchProcess as BatchProcess
    from penstock.model.process import Process as Process
    from penstock.model.process_states import list_state as list_state
    from penstock.model.process_states import map_state as map_state
    from penstock.model.process_states import reducing_state as reducing_state
    from penstock.model.process_states import value_state as value_state
    from penstock.model.sql_reader import sql as sql
    from penstock.model.windows import WindowAssigner as WindowAssigner
    from penstock.plan_views.text import explain as explain
