"""The pipeline under attack on files: a Nexmark query from Parquet to JSON lines.

Arguments: the query; ``append`` or ``changelog``; the directory of the data set.
"""

import sys
from pathlib import Path
from typing import cast

import penstock as ps
from penstock.benchmarks.nexmark.events import Events
from penstock.benchmarks.nexmark.queries import load
from penstock.model.option_literals import WriteMode

query, way, directory = sys.argv[1:4]
job = ps.Job()
stream = load(query)(Events(job, Path(directory)))
for number, node in enumerate(list(job.graph.operators.values())):
    job.change(node.id, name=f"{node.name} {number}", named=True)
stream.write_json("out", mode=cast(WriteMode, way)).name("out")
job.run("nexmark")
