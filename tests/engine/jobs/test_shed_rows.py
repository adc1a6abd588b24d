"""Rows that were shed in the ledger, and in what is decided of bad records."""

import pytest

from penstock.engine.core.contract import RowCounters
from penstock.engine.jobs.ledger import Ledger, OperatorLine, check_ledger
from penstock.model.errors import BugError


def test_rows_that_were_shed_are_accounted_for() -> None:
    counters = RowCounters(rows_in=10, passed=6, shed=4)
    assert counters.balanced() and not RowCounters(rows_in=10, passed=6).balanced()
    counters.add(RowCounters(rows_in=1, shed=1))
    assert counters.shed == 5 and counters.balanced()


def test_a_ledger_with_rows_that_were_shed_adds_up() -> None:
    ledger = Ledger((OperatorLine("in", 10, 6, 0, 0, 0, 0, 6, shed=4), OperatorLine("out", 6, 6, 0, 0, 0, 0, 0)), ())
    check_ledger(ledger, ended=True)
    assert ledger.shed == 4
    with pytest.raises(BugError, match="'in' took 10 rows in and accounts for 9"):
        check_ledger(Ledger((OperatorLine("in", 10, 6, 0, 0, 0, 0, 6, shed=3),), ()), ended=True)
