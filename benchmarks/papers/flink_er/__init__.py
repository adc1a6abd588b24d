"""Flink-ER: load handed out anew, instances at the minimum cut, and state that moves no more than it must."""

from penstock.benchmarks.papers.evaluation import Evaluation
from penstock.benchmarks.papers.flink_er.real_run import run as run_real
from penstock.benchmarks.papers.flink_er.run import run

EVALUATION = Evaluation(
    "flink_er", "Flink-ER, section 4: WordCount under a step of load, and what its state costs", run, run_real
)
