"""Of operators that several sinks depend on, those are right that reach a sink which is the same."""

import penstock as ps
from penstock import col
from penstock.replay.suspect_operators import suspect_operators, with_suspects
from penstock.replay.validation_result import QueryValidation


def test_what_reaches_a_sink_that_is_the_same_is_right() -> None:
    job = ps.Job()
    rows = ps.read_memory([{"k": 1, "n": 1}], job=job).name("rows")
    kept = rows.filter(col("n") > 0).name("kept")
    totals = kept.key_by("k").agg(n=ps.sum_("n")).name("totals")
    totals.filter(col("n") > 5).name("great").write_black_hole(mode="changelog").name("a")
    totals.write_black_hole(mode="changelog").name("b")
    kept.write_black_hole().name("c")

    def names(sink: str, *same: str) -> list[str]:
        return [node.name for node in suspect_operators(job.graph, sink, same)]

    assert names("a", "b", "c") == ["great", "a"]
    assert names("a", "c") == ["totals", "great", "a"]
    assert names("b", "c") == ["totals", "b"]
    assert names("a") == ["rows", "kept", "totals", "great", "a"]

    def noted(**missing: int) -> dict[str, tuple[str, ...]]:
        counts = {name: missing.get(name, 0) for name in "abc"}
        results = [
            QueryValidation(query=name, mode="append", rows_exact=rows, missing=rows) for name, rows in counts.items()
        ]
        return {result.query: tuple(result.notes) for result in with_suspects(job.graph, results)}

    assert noted(a=1) == {"a": ("look at 'great': they lead to it and to no sink that is the same",), "b": (), "c": ()}
    assert noted(c=1)["c"][0].startswith("every operator before it also leads to a sink that is the same")
