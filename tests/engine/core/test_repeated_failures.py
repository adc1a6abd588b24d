"""What fails again and again is said once for each cause, then counted."""

from penstock.engine.core.repeated_failures import REMIND_NS, RepeatedFailures, Streak


def test_a_cause_is_said_once_and_then_counted_now_and_then() -> None:
    failures = RepeatedFailures()
    assert failures.add("cannot write 'files/ab12': disk full", 0) == "cannot write 'files/ab12': disk full"
    for number in range(6):
        assert failures.add(f"cannot write 'files/{number}': disk full", number) is None, "only the file differs"
    text = failures.add("cannot write 'files/zz': disk full", REMIND_NS)
    assert text == "again, 7 times: cannot write 'files/zz': disk full"
    assert failures.add("cannot write 'files/zz': disk full", REMIND_NS + 1) is None
    assert failures.add("cannot write 'files/zz': read-only", REMIND_NS + 2) is not None, "another cause"


def test_the_end_tells_how_many_and_how_long() -> None:
    failures = RepeatedFailures()
    assert failures.end(5) is None
    failures.add("no broker", 10)
    failures.add("no broker", 30)
    assert failures.end(70) == Streak(2, 60)
    assert failures.end(80) is None
    assert failures.add("no broker", 90) == "no broker", "it begins anew"
