"""The page on changes of memory names the command that makes it."""

from penstock.benchmarks.state.memory_change import MODULE, PHASES, RESULTS, table


def test_the_page_names_its_command() -> None:
    phase = {"slices": 3, "slice_ms": 1.0, "done_s": 0.1, "turns": 9, "turn_p99_ms": 2.0, "turn_ms": 3.0}
    result = {"state_mb": 62.0, "rows": 1_000, "phases": dict.fromkeys(PHASES, phase)}
    text = table({"cores": 2, "budget_mb": 128, "rounds": 3}, result)
    assert f"`python -m {MODULE} --rounds 3`" in text
    written = (RESULTS / "memory_change.md").read_text(encoding="utf-8")
    assert written.splitlines()[:5] == text.splitlines()[:5]
