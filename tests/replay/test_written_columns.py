"""What a sink writes behind the user's columns follows from the plan, and so does whether estimates choose its rows."""

import penstock as ps
from penstock import col, count, max_
from penstock.replay.written_columns import written_columns


def test_columns_of_quality_follow_from_the_contract_and_choices_by_estimates_are_known() -> None:
    job = ps.Job()
    groups = ps.read_memory([{"a": 1, "b": 2.0}], job=job).key_by("a").agg(n=count(), m=max_("b"))
    groups.write_json("all", mode="upsert", key="a").with_min_accuracy(0.5).name("all")
    groups.filter(col("n") > 3).write_json("many", mode="upsert", key="a").with_min_accuracy(0.5).name("many")
    groups.filter(col("a") > 3).write_json("late", mode="upsert", key="a").with_min_accuracy(0.5).name("late")
    groups.write_json("whole", mode="upsert", key="a").name("whole")
    found = {
        node.name: written_columns(job.graph, node)
        for node in job.graph.operators.values()
        if node.name in ("all", "many", "late", "whole")
    }
    assert {name: (item.quality, item.chosen) for name, item in found.items()} == {
        "all": (True, False),
        "many": (True, True),
        "late": (True, False),
        "whole": (False, False),
    }
    assert found["all"].users == tuple(found["whole"].schema.fields.names) == ("a", "n", "m")
    assert found["all"].schema.fields.names[3:] == ["accuracy", "biased", "n_low", "n_high", "n_certified"]
