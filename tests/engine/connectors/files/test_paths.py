from pathlib import Path

import pytest

from penstock.engine.connectors.files.paths import find_files
from penstock.model.errors import UserError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("b.csv", "a.csv", "note.md", "_work.csv", ".hidden.csv", "sub/c.csv", "_tmp/d.csv"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("x\n")
    return tmp_path


def names(found: tuple[Path, ...]) -> list[str]:
    return [path.name for path in found]


def test_a_file_is_taken_whatever_its_suffix(folder: Path) -> None:
    assert names(find_files(folder / "note.md", [".csv"], "CSV")) == ["note.md"]


def test_a_directory_gives_its_files_in_order_without_work_in_progress(folder: Path) -> None:
    assert names(find_files(folder, [".csv"], "CSV")) == ["a.csv", "b.csv", "c.csv"]


def test_a_glob_gives_what_it_matches(folder: Path) -> None:
    assert names(find_files(f"{folder}/[ab].csv", [".csv"], "CSV")) == ["a.csv", "b.csv"]
    assert names(find_files(f"{folder}/**/*.csv", [".csv"], "CSV")) == ["a.csv", "b.csv", "c.csv"]


def test_a_missing_file_names_close_matches(folder: Path) -> None:
    with pytest.raises(UserError, match=r"'.*/aa\.csv' does not exist; did you mean '.*/a\.csv'"):
        find_files(folder / "aa.csv", [".csv"], "CSV")


def test_a_missing_folder_is_the_part_that_is_named(folder: Path) -> None:
    with pytest.raises(UserError, match=r"did you mean '.*/sub'"):
        find_files(folder / "subb" / "deep" / "x.csv", [".csv"], "CSV")


def test_nothing_that_matches_is_an_error(folder: Path) -> None:
    with pytest.raises(UserError, match="no file matches"):
        find_files(f"{folder}/*.parquet", [".parquet"], "Parquet")
    with pytest.raises(UserError, match=r"holds no file that ends in \.parquet; it has a\.csv"):
        find_files(folder, [".parquet"], "Parquet")


def test_a_url_is_refused() -> None:
    with pytest.raises(UserError, match="only local paths"):
        find_files("s3://bucket/x.parquet", [".parquet"], "Parquet")
