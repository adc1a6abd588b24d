"""The plan as SVG, and the layout beneath it."""

import random
import xml.etree.ElementTree as ElementTree

import pytest

from penstock.model.execution_graph import ExecutionGraph
from penstock.model.job_graph import SourceSpec
from penstock.plan_views.layered_layout import Box, lay_out, layers_of, non_decreasing
from penstock.plan_views.svg import svg
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


def test_layers_follow_edges_and_sources_stand_near_their_readers() -> None:
    edges = [(0, 1), (1, 2), (2, 3), (4, 3)]
    assert layers_of(5, edges) == [0, 1, 2, 3, 2]


@pytest.mark.parametrize("seed", range(20))
def test_boxes_never_overlap_and_edges_go_down(seed: int) -> None:
    dice = random.Random(seed)
    count = dice.randint(1, 40)
    boxes = [Box(dice.uniform(40, 300), dice.uniform(20, 120)) for _ in range(count)]
    edges = [(dice.randrange(target), target) for target in range(1, count) for _ in range(dice.randint(0, 2))]
    layout = lay_out(boxes, edges)
    placed = list(zip(layout.corners, boxes, strict=True))
    for index, ((x, y), box) in enumerate(placed):
        assert x >= -1e-6 and x + box.width <= layout.width + 1e-6
        assert y + box.height <= layout.height + 1e-6
        for (other_x, other_y), other in placed[:index]:
            apart_x = x + box.width <= other_x + 1e-6 or other_x + other.width <= x + 1e-6
            apart_y = y + box.height <= other_y + 1e-6 or other_y + other.height <= y + 1e-6
            assert apart_x or apart_y
    for (source, target), route in zip(edges, layout.routes, strict=True):
        assert [point[1] for point in route] == sorted(point[1] for point in route)
        assert route[0][1] == pytest.approx(layout.corners[source][1] + boxes[source].height)
        assert route[-1][1] == pytest.approx(layout.corners[target][1])


def test_a_crossing_that_can_be_avoided_is() -> None:
    box = Box(100, 40)
    layout = lay_out([box] * 4, [(0, 3), (1, 2)])
    (left, _), (right, _), (lower_2, _), (lower_3, _) = layout.corners
    assert (left < right) == (lower_3 < lower_2)


def test_nearest_non_decreasing_sequence() -> None:
    assert non_decreasing([1, 3, 2, 4]) == [1, 2.5, 2.5, 4]
    assert non_decreasing([3, 2, 1]) == [2, 2, 2]
    assert non_decreasing([]) == []


def test_nothing_to_lay_out() -> None:
    assert lay_out([], []).width == 0
