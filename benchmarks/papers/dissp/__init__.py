"""DISSP and THEMIS: fair shedding by source information content."""

from penstock.benchmarks.papers.dissp.real_run import run as run_real
from penstock.benchmarks.papers.dissp.run import run
from penstock.benchmarks.papers.evaluation import Evaluation

EVALUATION = Evaluation(
    "dissp", "DISSP, chapter 5 (THEMIS): fair shedding by source information content", run, run_real
)
