"""The page of all evaluations says what their rows say."""

from dataclasses import asdict

from penstock.benchmarks.papers.evaluation import Row, Spread, share
from penstock.benchmarks.papers.report import page


def test_goals_are_counted_and_what_is_missed_is_said() -> None:
    rows = [
        Row(0, "lag", "near 0", "<= 1", Spread(1234.0, 0.5, 2.0), Spread(8.0, 1.0, 9.0), None, False, "s", "too late"),
        Row(0, "a | b", "-", "-", share([True])),
        Row(0, "met", "1", "1", share([True]), met=True, note="is not said"),
    ]
    text = page({"economics": [asdict(row) for row in rows]})
    assert "1 of 2 goals are met." in text
    assert "| lag | near 0 | <= 1 | 1,234 s | 0.5 to 2 | 8 |  | **no** |" in text
    assert r"| a \| b | - | - | 1 |  |  |  |  |" in text
    assert "- **lag**: too late" in text and "is not said" not in text
