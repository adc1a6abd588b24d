"""Nexmark queries as one job: it reads a topic once, and every query writes Parquet into a folder of its name.

Called by `nexmark` and the tests. As a pipeline of its own, ``penstock run`` and ``penstock validate`` take this file
with a topic, ``kafka://HOST:PORT/TOPIC``, a folder and queries, such as ``q5,q7``.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.benchmarks.nexmark.events import Events
from penstock.benchmarks.nexmark.queries import NAMES, load
from penstock.benchmarks.nexmark.topic import EventTopic, parse_address
from penstock.dsl.job import Job
from penstock.engine.jobs.metrics import JobMetrics
from penstock.model.job_graph import SinkSpec

JOB = "nexmark"

QUERIES = tuple(name for name in NAMES if name != "q12")
"""Those that a batch can answer: q12 has windows of processing time, and which rows they held nobody knows later."""


@dataclass(frozen=True, slots=True)
class NexmarkJob:
    """Queries over a topic, which write below ``folder``; checkpoints are there too."""

    topic: EventTopic
    folder: Path
    queries: Sequence[str] = QUERIES

    @property
    def checkpoints(self) -> Path:
        """The folder of the checkpoints."""
        return self.folder / "checkpoints"

    def build(self) -> Job:
        """Return the job; what a query has of its own is named after it."""
        job = Job()
        events = Events(job, self.topic)
        for query in self.queries:
            stream = load(query)(events)
            stream.write_parquet(self.folder / query, mode="changelog" if stream.updating else "append").name(query)
            for node in list(job.graph.operators.values()):
                if not node.named and not isinstance(node.spec, SinkSpec):
                    job.change(node.id, name=f"{query} {node.name}", named=True)
        return job

    def run(self, job: Job, interval: str = "10s", parallelism: int = 2, **options: Any) -> JobMetrics:
        """Run it to the end of the topic."""
        return job.run(
            JOB,
            directory=self.folder / "job",
            checkpoint_dir=self.checkpoints,
            checkpoint_interval=interval,
            parallelism=parallelism,
            at_end="close",
            **options,
        )


if __name__ == "__main__":
    address, directory, *given = sys.argv[1:]
    pipeline = NexmarkJob(parse_address(address).bounded(), Path(directory), given[0].split(",") if given else QUERIES)
    pipeline.run(pipeline.build())
