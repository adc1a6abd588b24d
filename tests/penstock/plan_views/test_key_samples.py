"""What `explain` says of queries whose rows are dropped by their keys."""

import penstock as ps
from penstock.plan_views.quality import quality_details
from tests.engine.plan.test_shedding_points import minute, rows, sessions


def test_a_sampler_says_by_which_key_and_how_far() -> None:
    job = ps.Job()
    visits = sessions(rows(job).name("all")).name("visits")
    visits.write_black_hole().name("found").with_min_accuracy(0.4)
    minute(visits.select("window_end", key="n")).name("sums").write_black_hole().name("summed").with_min_accuracy(0.3)
    graph = job.plan(2).graph
    details = {graph[operator].name: dict(pairs) for operator, pairs in quality_details(graph).items()}
    assert {name: pairs for name, pairs in details.items() if pairs} == {
        "sums": {"shedding": "n estimated, with an interval"},
        "summed": {"adds": "accuracy, biased, n_low, n_high, n_certified"},
        "all": {"shedding": "by keys behind it only, as a query needs all of its rows"},
        "visits": {"shedding": "sampled by key key, down to 0.4; results are exact, and some are missing"},
        "found": {"adds": "accuracy, biased"},
    }


def test_a_join_says_which_of_its_sides_is_sampled() -> None:
    job = ps.Job()
    left, right = rows(job).name("left"), rows(job).name("right")
    pairs = left.interval_join(right, on="key", between=("-1s", "1s")).name("pairs")
    pairs.write_black_hole().name("found").with_min_accuracy(0.4)
    alone = left.interval_join(right, on="key", between=("-1s", "1s"), how="left").name("alone")
    alone.write_black_hole().name("lonely").with_min_accuracy(0.3)
    graph = job.plan(2).graph
    details = {graph[operator].name: dict(pairs) for operator, pairs in quality_details(graph).items()}
    assert {name: pairs["shedding"] for name, pairs in details.items() if "shedding" in pairs} == {
        "left": "by keys behind it only, as a query needs all of its rows",
        "right": "by keys behind it only, as a query needs all of its rows",
        "pairs": "left sampled by key key, down to 0.4; right sampled by key key, down to 0.4; results are exact, and "
        "some are missing",
        "alone": "left sampled by key key, down to 0.3; right whole; results are exact, and some are missing",
    }
