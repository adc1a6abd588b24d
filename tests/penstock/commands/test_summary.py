"""The summary that ends a run, of figures some of which are missing."""

import json
from dataclasses import asdict, replace

import pytest

import penstock as ps
from penstock.commands.run_start import print_summary, summarise
from penstock.engine.jobs.ledger import EdgeLine, check_ledger
from penstock.engine.jobs.metrics import JobMetrics, no_metrics
from penstock.model.errors import BugError


def metrics(*missing: str) -> JobMetrics:
    nothing = no_metrics("shop")
    return replace(nothing, ledger=replace(nothing.ledger, edges=(EdgeLine("a -> b", 5, 4),), missing=missing))


def test_who_was_lost_with_its_last_figures_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    summary = summarise(ps.Job(), metrics("tm-0", "tm-2"), stopped=False)
    print_summary(summary)
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith("FIGURES MISSING: ") and "'tm-0', 'tm-2'" in line and "whole" in line
    assert json.loads(json.dumps(asdict(summary)))["missing"] == ["tm-0", "tm-2"]


def test_where_none_is_missing_nothing_is_said_and_all_must_add_up(capsys: pytest.CaptureFixture[str]) -> None:
    print_summary(summarise(ps.Job(), metrics(), stopped=False))
    assert "MISSING" not in capsys.readouterr().err
    with pytest.raises(BugError, match="'a -> b' sent 5 rows and 4 were received"):
        check_ledger(metrics().ledger, ended=True)
    check_ledger(metrics("tm-1").ledger, ended=True)
