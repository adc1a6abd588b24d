"""Another column as event time: in a batch no row is late, so only rows without a usable time are left out."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from penstock.engine.connectors.time_range import GREATEST_TIME_US, LEAST_TIME_US
from penstock.model.job_graph import MAIN, OperatorNode, TimeSpec
from penstock.replay.frames import Frame, ReplayContext, Rows
from penstock.replay.spark_form import SparkForm
from penstock.replay.spark_types import quoted_name


class TimeForm(SparkForm[TimeSpec]):
    """Rows go through as they are."""

    spec = TimeSpec
    carries = True

    def compile(self, spec: TimeSpec, node: OperatorNode, inputs: Sequence[Frame], context: ReplayContext) -> Rows:
        """Pass the rows whose new event time is one of the years 1 to 9999."""
        micros = f"unix_micros(CAST({quoted_name(spec.column)} AS TIMESTAMP))"
        return {MAIN: inputs[0].rows.filter(f"{micros} BETWEEN {LEAST_TIME_US}L AND {GREATEST_TIME_US}L")}

    def hidden(self, spec: TimeSpec, inputs: Sequence[Frame], context: ReplayContext) -> pa.Schema:
        """Return those of the input."""
        return inputs[0].hidden


EVENT_TIME = TimeForm()
