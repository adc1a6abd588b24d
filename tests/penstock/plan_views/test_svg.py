"""The plan as SVG."""

import itertools
import random
import re
import xml.etree.ElementTree as ElementTree

import pytest

from penstock.model.execution_graph import ExecutionGraph
from penstock.model.job_graph import SourceSpec
from penstock.plan_views.svg import free_lanes, svg
from penstock.plan_views.words import display_name, edge_text
from tests.penstock.plans import BIDS, File, node, plan_of, sample_plan

SVG = "{http://www.w3.org/2000/svg}"


def test_picture_is_well_formed_and_complete() -> None:
    root = ElementTree.fromstring(svg(sample_plan()))
    assert root.tag == f"{SVG}svg"
    texts = [element.text for element in root.iter(f"{SVG}text")]
    for expected in (
        "source-1*",
        "sold",
        "per-seller",
        "task 2 ×2",
        "hash(auction) (left)",
        "late: rebalance",
    ):
        assert expected in texts
    assert len([item for item in root.iter(f"{SVG}path") if item.get("class") == "edge"]) == 4


def test_everything_lies_within_the_picture() -> None:
    root = ElementTree.fromstring(svg(sample_plan()))
    width, height = float(root.get("width", 0)), float(root.get("height", 0))
    cards = [item for item in root.iter(f"{SVG}rect") if item.get("rx") == "5"]
    assert len(cards) == 5
    for card in cards:
        x, y, w, h = (float(card.get(name, 0)) for name in ("x", "y", "width", "height"))
        assert x >= 0 and y >= 0 and x + w <= width and y + h <= height


@pytest.mark.parametrize(
    "plan",
    [sample_plan(), plan_of([node("in", SourceSpec(File("x", BIDS)))], [(["in"], 1)], [])],
    ids=["wide boxes", "a long foot"],
)
def test_text_fits_where_it_stands_in_the_widest_of_its_fonts(plan: ExecutionGraph) -> None:
    root = ElementTree.fromstring(svg(plan))
    character = 0.602 * 12
    groups = [group for group in root.iter(f"{SVG}g") if group.find(f"{SVG}rect") is not None]
    assert len(groups) == len(plan.tasks)
    frames = [(group, group.find(f"{SVG}rect")) for group in groups]
    for place, frame in [*frames, (root, root.find(f"{SVG}rect"))]:
        assert frame is not None
        right = float(frame.get("x", 0)) + float(frame.get("width", 0))
        for line in place.findall(f"{SVG}text"):
            assert float(line.get("x", 0)) + len(line.text or "") * character <= right


def test_hostile_text_is_escaped_and_long_text_cut() -> None:
    name = '</text><script>alert("x")</script>&' + "long" * 40
    text = svg(plan_of([node("in", SourceSpec(File(name, BIDS)))], [(["in"], 1)], []))
    root = ElementTree.fromstring(text)
    assert not list(root.iter(f"{SVG}script"))
    assert all(len(item.text or "") <= 100 for item in root.iter(f"{SVG}text"))
    assert any(name in (item.text or "") for item in root.iter(f"{SVG}title"))


def test_arrows_lead_from_the_line_of_an_operator_to_the_line_that_names_their_exchange() -> None:
    plan = sample_plan()
    root = ElementTree.fromstring(svg(plan))
    lines = {item.text: float(item.get("y", 0)) - 4 for item in root.iter(f"{SVG}text")}
    arrows = [
        tuple(float(number) for number in re.findall(r"[0-9.]+", item.get("d", "")))
        for item in root.iter(f"{SVG}path")
        if item.get("class") == "edge"
    ]
    left = min(float(item.get("x", 0)) for item in root.iter(f"{SVG}rect") if item.get("rx") == "5")
    drawn = {(begin, end) for x, begin, lane, end, to in arrows if x == to == left and 0 < lane < left}
    channels = [edge for edge in plan.edges if not edge.chained]
    assert drawn == {
        (lines[display_name(plan.graph[edge.producer])], lines[edge_text(plan, edge)]) for edge in channels
    }


@pytest.mark.parametrize("seed", range(20))
def test_arrows_in_one_lane_never_touch(seed: int) -> None:
    dice = random.Random(seed)
    spans = [(dice.uniform(0, 100), dice.uniform(0, 100)) for _ in range(dice.randint(0, 40))]
    lanes = free_lanes(spans)
    assert len(lanes) == len(spans)
    for (a, one), (b, other) in itertools.combinations(zip(spans, lanes, strict=True), 2):
        assert one != other or max(a) < min(b) or max(b) < min(a)
    assert set(lanes) == set(range(max(lanes, default=-1) + 1))


def test_boxes_do_not_overlap() -> None:
    root = ElementTree.fromstring(svg(sample_plan()))
    places = [(float(item.get("y", 0)), float(item.get("height", 0))) for item in root.iter(f"{SVG}rect")][1:]
    assert all(y + height < following for (y, height), (following, _) in itertools.pairwise(places))
