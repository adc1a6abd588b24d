"""What a replay does not compute: the two ends of a pipeline, which it reads and compares, and what only plans have."""

from __future__ import annotations

from penstock.model.job_graph import BranchSpec, SinkSpec, SourceSpec
from penstock.replay.spark_form import NoForm

BRANCH = NoForm(BranchSpec, "pipelines have none, and what it has shed is in the log")
SOURCE = NoForm(SourceSpec, "its rows are read again, not computed")
SINK = NoForm(SinkSpec, "what it has written is compared, not computed")
