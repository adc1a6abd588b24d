"""The two ends of a pipeline: what a replay reads and what it compares, so that neither is computed."""

from __future__ import annotations

from penstock.model.job_graph import SinkSpec, SourceSpec
from penstock.replay.spark_form import NoForm

SOURCE = NoForm(SourceSpec, "its rows are read again, not computed")
SINK = NoForm(SinkSpec, "what it has written is compared, not computed")
