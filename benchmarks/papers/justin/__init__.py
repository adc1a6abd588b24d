"""Justin and the DS2 that it starts from: instances and memory of Nexmark's queries, and how many steps they take."""

from penstock.benchmarks.papers.evaluation import Evaluation
from penstock.benchmarks.papers.justin.real_run import run as run_real
from penstock.benchmarks.papers.justin.run import run

EVALUATION = Evaluation(
    "justin", "Justin, Figure 5, and DS2's steps: instances, memory and reconfigurations", run, run_real
)
