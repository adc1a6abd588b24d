"""The page of all evaluations says what their rows say: what was missed, softened, and is to be known of the rest."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from penstock.benchmarks.papers import report
from penstock.benchmarks.papers.evaluation import RealRow, Row, Spread, share, spread
from penstock.benchmarks.papers.report import main, merged, page


def test_goals_are_counted_and_what_is_missed_softened_or_to_be_known_is_said() -> None:
    rows = [
        Row(0, "lag", "near 0", "<= 1", Spread(1234.0, 0.5, 2.0), Spread(8.0, 1.0, 9.0), None, False, "s", "too late"),
        Row(0, "a | b", "-", "-", share([True])),
        Row(0, "met", "1", "1", share([True] * 40), met=True, note="of one case", softened="only the smallest"),
        Row(0, "met too", "1", "1", spread([1.0, 2.0]), met=True, note="of one case"),
    ]
    text = page({"economics": [asdict(row) for row in rows]})
    assert "2 of 3 goals are met; 1 are softened." in text
    assert "| lag | near 0 | <= 1 | 1,234 s | 0.5 to 2 | 8 |  | 1 | **no** |" in text
    assert r"| a \| b | - | - | 1 |  |  |  | 1 |  |" in text
    assert "| met | 1 | 1 | 1 |  |  |  | 40 | yes |" in text
    assert "Missed:\n\n- **lag**: too late" in text
    assert "- **met**: only the smallest" in text
    assert "- **met; met too**: of one case" in text


def test_rows_that_were_not_run_again_stay_as_earlier_ones() -> None:
    old = {
        "sage": [asdict(Row(0, "time", "-", "-", share([True])))],
        "justin": [asdict(Row(0, name, "-", "-", share([True]))) for name in ("q8", "steps", "gone")],
        "dissp": [asdict(Row(0, "gone", "-", "-", share([True])))],
    }
    fresh = {
        "justin": [asdict(Row(0, name, "-", "-", share([False] * 7))) for name in ("steps", "new")],
        "dissp": [asdict(Row(0, "J", "-", "-", share([False])))],
    }
    rows = merged(old, fresh, ["justin"])
    assert [(row["row"], row["earlier"]) for row in rows["justin"]] == [
        ("q8", True), ("steps", False), ("gone", True), ("new", False),
    ]  # fmt: skip
    assert [row["row"] for row in rows["dissp"]] == ["J"]
    text = page(rows)
    assert "| time | - | - | 1 |  |  |  | 1, earlier |  |" in text
    assert "| steps | - | - | 0 |  |  |  | 7 |  |" in text


def test_the_page_and_its_rows_are_written_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    for name, value in (("dissp", True), ("sage", False)):
        (tmp_path / name).mkdir()
        row = Row(0, f"row of {name}", "-", "-", share([value]))
        (tmp_path / name / "rows.jsonl").write_text(json.dumps(asdict(row)) + "\n")
    assert main([str(tmp_path)]) == 0
    first = (tmp_path / "papers.md").read_text()
    (tmp_path / "sage" / "rows.jsonl").unlink()
    assert main([str(tmp_path)]) == 0
    again = (tmp_path / "papers.md").read_text()
    assert again == first.replace(
        "| row of sage | - | - | 0 |  |  |  | 1 |", "| row of sage | - | - | 0 |  |  |  | 1, earlier |"
    )


def write_rows(folder: Path, *rows: Row) -> None:
    folder.mkdir(parents=True)
    (folder / "rows.jsonl").write_text("".join(json.dumps(row.as_dict()) + "\n" for row in rows))


def test_rows_on_real_parts_have_a_page_with_charts_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "RESULTS", tmp_path / "results")
    (tmp_path / "results").mkdir()
    write_rows(tmp_path / "runs" / "sage", RealRow(0, "size", "-", "-", share([True]), met=True))
    write_rows(tmp_path / "runs" / "dissp", RealRow(0, "J", "-", "-", share([True])))
    for name in ("real_late", "simulated"):
        (tmp_path / "runs" / "sage" / f"{name}.svg").write_text(name)
    assert main(["--real", str(tmp_path / "runs")]) == 0
    written = sorted(path.name for path in (tmp_path / "results").iterdir())
    assert written == ["papers-real.jsonl", "papers-real.md", "sage_real_late.svg"]
    text = (tmp_path / "results" / "papers-real.md").read_text()
    assert "Nothing here was simulated." in text and "| size |" in text
    assert "![sage_real_late.svg](sage_real_late.svg)" in text
    # Those that are not run again stay, and are real ones still.
    (tmp_path / "runs" / "dissp" / "rows.jsonl").unlink()
    assert main(["--real", str(tmp_path / "runs")]) == 0
    assert "1, earlier" in (tmp_path / "results" / "papers-real.md").read_text()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "has 1 of 2 rows that were measured on real parts, such as 'size': say --real"),
        (["--real"], "has 1 of 2 rows that were not said to be measured on real parts, such as 'model': leave --real"),
    ],
)
def test_rows_of_both_kinds_are_on_no_page(
    options: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(report, "RESULTS", tmp_path / "results")
    (tmp_path / "results").mkdir()
    rows = (RealRow(0, "size", "-", "-", share([True])), Row(0, "model", "-", "-", share([True])))
    write_rows(tmp_path / "runs" / "sage", *rows)
    with pytest.raises(SystemExit) as refused:
        main([*options, str(tmp_path / "runs")])
    assert refused.value.code == 2
    printed = " ".join(capsys.readouterr().err.split())
    assert said in printed and "sage/rows.jsonl has" in printed
    assert not [*(tmp_path / "results").iterdir()]


def test_rows_of_the_other_kind_that_were_kept_are_refused_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    kept = RealRow(0, "size", "-", "-", share([True])).as_dict() | {"evaluation": "sage"}
    (tmp_path / "papers.jsonl").write_text(json.dumps(kept) + "\n")
    write_rows(tmp_path / "runs" / "dissp", Row(0, "J", "-", "-", share([True])))
    with pytest.raises(SystemExit):
        main([str(tmp_path / "runs")])
    assert "papers.jsonl has 1 of 1 rows that were measured on real parts" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["dissp", "economics", "flink_er", "justin", "sage"])
def test_every_row_of_the_page_says_how_many_draws_it_has(name: str) -> None:
    lines = (report.RESULTS / "papers.jsonl").read_text(encoding="utf-8").splitlines()
    own = [row for row in map(json.loads, lines) if row["evaluation"] == name]
    assert own and all(row["ours"]["draws"] >= 1 for row in own)
    assert all(row["note"] for row in own if row["met"] is False)
    assert not any(row.get("real", False) for row in own)
