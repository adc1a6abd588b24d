"""Stream-Economics: what is shed first, what moves, and that no log grows while accuracy can give way."""

from penstock.benchmarks.papers.economics.real_run import run as run_real
from penstock.benchmarks.papers.economics.run import run
from penstock.benchmarks.papers.evaluation import Evaluation

EVALUATION = Evaluation(
    "economics",
    "Stream-Economics, section 7: three scenarios, source rates, overload, and what a cycle takes",
    run,
    run_real,
)
