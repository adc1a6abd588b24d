"""The plan as a tree, as Mermaid and as JSON."""

import json
import re

import pytest

import penstock as ps
from penstock.engine.operators.descriptions import Words, expression_text
from penstock.model.execution_graph import ExecutionGraph
from penstock.model.expressions import col, lit
from penstock.model.job_graph import FilterSpec, ProjectSpec, SinkSpec, SourceSpec, SplitSpec
from penstock.plan_views.text import explain, mermaid
from penstock.plan_views.words import plan_data, words
from tests.penstock.plans import BIDS, File, Folder, edge, node, plan_of, sample_plan

TREE = """\
plan: 5 tasks, 8 instances
* generated name; .name("...") gives the operator a stable one

task 0 ×2: source-1*  read parquet bid.parquet
│   columns      auction, price, at
│   pushed down  (price > 100) AND (auction < 5000)
│   event time   at, watermark 4s behind
│   shedding     never: it ends by itself, so what comes late is not lost
└─ filter-1*  where (price > 100) AND (auction < 5000)
   ╘═ hash(auction) (left) ═▶ task 2 ×2: sold (drawn below)

task 1 ×1: source-2*  read parquet auction.parquet
│   columns     id, seller, at
│   event time  at, watermark 0s behind
│   on error    skip
│   shedding    never: it ends by itself, so what comes late is not lost
╘═ hash(id) (right) ═▶ task 2 ×2: sold  join on auction = id
   │   window   tumbling 10s, 2s of lateness
   │   columns  price, seller, at
   └─ select-1*  select seller, euro = price * 0.908
      ╘═ hash(seller) ═▶ task 3 ×2: per-seller  group by seller
         │   window  tumbling 10s, 2s of lateness, emits final results
         │   n       count()
         │   top     max(euro)
         │   dear    count() where price >= 1000
         ├─ sink-1*  sink: parquet sellers
         │      mode  append, min accuracy 0.7, priority 5
         │      adds  accuracy, biased
         ╘═ late: rebalance ═▶ task 4 ×1: late-rows  sink: parquet late
                mode  upsert by seller, min accuracy 1, priority 0
"""


def test_tree() -> None:
    assert explain(sample_plan()) == TREE


def test_long_lines_are_wrapped_under_their_own_text() -> None:
    columns = tuple((f"a_rather_long_name_{number}", col("price") + number) for number in range(12))
    plan = plan_of(
        [
            node("in", SourceSpec(File("bid.parquet", BIDS)), named=True),
            node("wide", ProjectSpec(columns), "in", named=True),
        ],
        [(["in", "wide"], 1)],
        [edge("in", "wide", chained=True)],
    )
    lines = explain(plan).splitlines()
    assert max(len(line) for line in lines) <= 110
    assert "generated" not in lines[1]
    wrapped = [line for line in lines if "a_rather_long_name_11" in line]
    assert wrapped and wrapped[0].startswith("   ")


def test_condition_that_a_projection_took_over() -> None:
    spec = ProjectSpec((("price", col("price")),), where=col("auction") == 7)
    plan = plan_of([node("out", spec, named=True)], [(["out"], 1)], [])
    assert explain(plan).splitlines()[-2:] == ["task 0 ×1: out  select price", "    where  auction = 7"]


def test_branches_of_a_chain() -> None:
    outputs = (("big", col("price") > 5), ("small", col("price") < 2))
    plan = plan_of(
        [
            node("in", SourceSpec(File("bid.parquet", BIDS)), named=True),
            node("parts", SplitSpec(outputs), "in", named=True),
            node("a", FilterSpec(col("auction") > 1), "parts", named=True),
            node("a-out", SinkSpec(Folder("a")), "a", named=True),
            node("b-out", SinkSpec(Folder("b")), "parts", named=True),
        ],
        [(["in", "parts", "a", "a-out", "b-out"], 1)],
        [
            edge("in", "parts", chained=True),
            edge("parts", "a", output="big", chained=True),
            edge("a", "a-out", chained=True),
            edge("parts", "b-out", output="small", chained=True),
        ],
    )
    tree = explain(plan)
    names = [line.split("  ")[0] for line in tree.splitlines() if "─ " in line]
    positions = {
        name: line.index("─ ")
        for line in tree.splitlines()
        for name in ("a-out", "b-out", "parts")
        if f" {name}  " in line
    }
    assert len(names) == 4
    assert "─ big: a  " in tree
    assert "─ small: b-out  " in tree
    assert 'n1 -->|"big"| n2' in mermaid(plan)
    assert positions["parts"] < positions["b-out"] < positions["a-out"]
    assert "big    where price > 5" in tree


def test_mermaid_is_well_formed() -> None:
    text = mermaid(sample_plan())
    lines = [line.strip() for line in text.splitlines()]
    assert lines[0] == "flowchart TB"
    assert sum(line.startswith("subgraph") for line in lines) == sum(line == "end" for line in lines) == 5
    node_line = re.compile(r'^n\d+\["[^"`]*"\]$')
    edge_line = re.compile(r'^n\d+ (-->|==>\|"[^"|`]*"\|) n\d+$')
    for line in lines[1:]:
        if not line.startswith("subgraph") and line != "end":
            assert node_line.match(line) or edge_line.match(line), line
    declared = set(re.findall(r"^\s*(n\d+)\[", text, re.MULTILINE))
    used = set(re.findall(r"\b(n\d+)\b(?!\[)", re.sub(r'"[^"]*"', "", text)))
    assert used <= declared
    assert '==>|"hash(auction) (left)"|' in text


@pytest.mark.parametrize("hostile", ['say "hi"', "a < b > c", "`code`", "#1; end", "back\\slash", "a|b"])
def test_mermaid_escapes_what_users_write(hostile: str) -> None:
    plan = plan_of(
        [
            node("in", SourceSpec(File(hostile, BIDS)), named=True),
            node("f", FilterSpec(col("price") == lit(hostile)), "in"),
        ],
        [(["in", "f"], 1)],
        [edge("in", "f", chained=True)],
    )
    for line in mermaid(plan).splitlines():
        if "[" in line:
            label = line[line.index('["') + 2 : line.rindex('"]')]
            assert not set('"`\\') & set(label)
            assert not re.search(r"<(?!/?b>|br/>)", label)


def test_json_names_every_operator_and_edge() -> None:
    data = json.loads(json.dumps(plan_data(sample_plan())))
    operators = [item for task in data["tasks"] for item in task["operators"]]
    assert [item["name"] for item in operators][:2] == ["source-1", "filter-1"]
    assert operators[0]["generated_name"] and operators[0]["details"]["columns"] == "auction, price, at"
    assert {item["exchange"] for item in data["edges"]} == {"forward", "hash", "rebalance"}
    assert len(data["edges"]) == 7


def test_doubles_are_written_plainly_and_quoted_text_is_left_alone() -> None:
    assert expression_text(col("price") * 0.5 + 2.25) == "(price * 0.5) + 2.25"
    assert expression_text(col("name") == lit("v1.0e0")) == "name = 'v1.0e0'"


def test_a_query_under_contract_shows_what_may_be_shed_and_what_its_results_say() -> None:
    job = ps.Job()
    items = ps.read_kafka(
        "items", kafka="nowhere:1", schema={"item": int, "price": int, "at": "timestamp[us]"}, job=job
    )
    priced = items.filter(col("price") > 0).name("priced")
    sums = priced.key_by("item").agg(total=ps.sum_("price"), most=ps.max_("price")).name("sums")
    sums.write_black_hole(mode="changelog").with_min_accuracy(0.5).with_max_lag("10s").name("hot")
    priced.write_black_hole().with_min_accuracy(0.8).name("rows")
    kept = ps.read_kafka("kept", kafka="nowhere:1", schema={"item": int}, shed=False, job=job)
    kept.write_black_hole().with_min_accuracy(0.1).name("kept")
    said = {name: dict(item.details) for name, item in _by_name(job.plan()).items()}
    assert said["source-1"]["shedding"] == "down to 0.8"
    assert said["sums"]["shedding"] == "total estimated, with an interval; most biased"
    assert "shedding" not in said["rows"]
    assert said["source-2"]["shedding"] == "never: it was read with shed=False"
    assert said["hot"]["mode"] == "changelog, min accuracy 0.5, priority 0, max lag 10s"
    assert said["hot"]["adds"] == "accuracy, biased, total_low, total_high, total_certified"
    assert said["rows"]["adds"] == "accuracy, biased"


def test_nothing_is_said_of_shedding_where_no_query_is_under_contract() -> None:
    job = ps.Job()
    ps.read_memory([{"a": 1}], job=job).write_black_hole()
    assert "shedding" not in explain(job) and "adds" not in explain(job)


def _by_name(graph: ExecutionGraph) -> dict[str, Words]:
    return {graph.node(key).name: item for key, item in words(graph).items()}
