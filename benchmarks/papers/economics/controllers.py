"""The controllers that are tried: the paper's and ours, each as the simulation asks them."""

from dataclasses import replace

from penstock.shedding import qod
from penstock.shedding.qod_figures import FigureOptions

_LEAST_S = 3.0
"""They are asked every 5 s, but what they see ends with a report: the next may be a report's time less than 5 s later,
and they would wait another 5 s."""

PAPER = replace(qod.PAPER, period_s=_LEAST_S)
"""The paper's, repaired, with exact rates of the topics."""

BY_MAXIMA = replace(PAPER, reading=FigureOptions(sources="lag maxima"))
"""The paper's, which sees of a log what a Kafka client's metrics say."""

PENSTOCK = replace(qod.PENSTOCK, period_s=_LEAST_S)
"""Ours: equal accuracy, and backlogs in the target."""

PLAIN = replace(PENSTOCK, reading=replace(PENSTOCK.reading, drain_s=None))
"""Ours without the backlog in its target."""
