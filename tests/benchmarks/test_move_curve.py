"""The curve of a move: ages are counted by steps, figures stand for both ways, and the picture has both curves."""

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.benchmarks.cluster.__main__ import main
from penstock.benchmarks.cluster.ages import STEPS, quantile_ms, steps_of
from penstock.benchmarks.cluster.move_chart import Span, draw


@given(st.lists(st.floats(0.1, 1e6), min_size=1, max_size=200), st.sampled_from([0.5, 0.9, 0.99]))
def test_a_quantile_of_steps_is_near_that_of_the_ages(ages_ms: list[float], share: float) -> None:
    counts = np.bincount(steps_of(np.array(ages_ms)), minlength=STEPS)
    found, exact = quantile_ms(counts, share), sorted(ages_ms)[int(np.ceil(share * len(ages_ms))) - 1]
    assert found is not None and abs(np.log10(found / exact)) <= 0.11
    assert quantile_ms(np.zeros(STEPS, np.int64), share) is None


def test_the_picture_has_a_line_for_each_curve_and_a_name_for_each_span() -> None:
    ages = {"p50": [(0.0, 1.0), (1.0, 20.0)], "p99": [(0.0, 4.0), (1.0, 300.0)]}
    text = draw(ages, {"keys that stay": [(0.0, 5e4), (1.0, 4e4)]}, [Span("a move", 0.2, 0.4)])
    root = ET.fromstring(text)
    tags = [item.tag.rpartition("}")[2] for item in root.iter()]
    assert tags.count("path") == 3
    told = {item.text for item in root.iter() if item.text}
    assert {"a move", "p50", "p99", "keys that stay", "rows a second"} <= told


@pytest.mark.long("two minutes of task managers; the figures themselves are measured by hand")
@pytest.mark.slow
def test_both_ways_have_figures_and_a_curve(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "move.svg"
    given_ = ["--keys", "40000", "--load", "0.3", "--quiet-s", "4", "--picture", str(picture)]
    assert main(["--only", "move", *given_, "--json"]) == 0
    lines = json.loads(capsys.readouterr().out)["move"]
    assert [line["way"] for line in lines] == ["move", "stop and start"]
    assert all(line["took_s"] > 0 and line["others_p99"] > 0 and 0 <= line["others_rate"] < 2 for line in lines)
    assert lines[0]["moved_mb"] > 0 and lines[0]["pause_p99_ms"] >= lines[0]["pause_p50_ms"] > 0
    assert lines[1]["all_p99"] > lines[0]["all_p99"]
    ET.fromstring(picture.read_text())
