"""``python -m penstock.benchmarks.crossing.side SIDE CORE``: one of the two processes of a `Pair`."""

import os
import sys

import pyarrow as pa

from penstock.benchmarks.crossing.bare import cross
from penstock.benchmarks.crossing.beside import receive_beside, work_alone
from penstock.benchmarks.crossing.filling import fill
from penstock.benchmarks.crossing.pair import serve
from penstock.benchmarks.crossing.sessions import run_sessions
from penstock.engine.core.process_tuning import tune_process

if __name__ == "__main__":
    own, core = int(sys.argv[1]), int(sys.argv[2])
    os.sched_setaffinity(0, {core})
    pa.set_cpu_count(1)
    tune_process()
    tasks = {"cross": cross, "beside": receive_beside, "alone": work_alone, "fill": fill, "sessions": run_sessions}
    serve(own, tasks)
