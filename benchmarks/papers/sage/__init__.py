"""Sage: applications sized by rules, one resource at a time, against a brute-force optimum."""

from penstock.benchmarks.papers.evaluation import Evaluation
from penstock.benchmarks.papers.sage.real_run import run as run_real
from penstock.benchmarks.papers.sage.run import run

EVALUATION = Evaluation("sage", "Sage, section 4: applications sized by rules, against brute force", run, run_real)
