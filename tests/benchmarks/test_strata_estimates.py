"""Intervals over strata cover what they promise, and groups are off by less than where rows were dropped alone."""

import pytest

from penstock.benchmarks.strata_estimates import BIAS, COVERAGE, Cell, cells, grade


@pytest.mark.parametrize("cell", [Cell(80, 8 / 64, 0.5), Cell(200, 32 / 64, 1.0)], ids=str)
def test_intervals_cover_and_errors_of_groups_are_smaller(cell: Cell) -> None:
    for item in grade(cell, 1_000, seed=2):
        assert item.graded >= 990
        assert item.holds, item
        # A mean hardly gains: of it only what keys have to do with values is taken out, which is nothing here.
        assert item.ratio < {"count": 0.3, "sum": 0.9, "mean": 1.1}[item.aggregate], item
        assert item.total_ratio < 1.1, item


def test_intervals_of_rows_that_were_dropped_alone_are_too_wide_for_strata() -> None:
    """The control: with the moments of independent rows counts and sums cover all the time."""
    for item in grade(Cell(200, 32 / 64, 0.0), 500, seed=2, drawn=False):
        if item.aggregate != "mean":
            assert item.coverage > COVERAGE[1] + 0.02, item


def test_rows_that_stand_for_themselves_alone_are_seen() -> None:
    """The control: without weights counts and sums are those of the kept rows, and nothing covers."""
    for item in grade(Cell(80, 16 / 64, 1.0), 200, seed=2, weighted=False):
        assert (item.coverage < 0.05 and abs(item.bias) > BIAS) or item.aggregate == "mean", item


@pytest.mark.long("two minutes of draws; two cells of them are tried always")
def test_intervals_cover_over_rows_keep_rates_and_skewness() -> None:
    graded = [item for cell in cells() for item in grade(cell, 4_000, seed=1)]
    assert len(graded) == 108
    assert [item for item in graded if not item.holds] == []
