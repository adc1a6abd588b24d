"""State that earlier versions wrote: it is restored, and the job goes on to the answer of one that never stopped."""

from pathlib import Path

import pytest

from tests.fixtures.write_states import STATES, unpack
from tests.penstock.stateful_pipelines import PIPELINES
from tests.penstock.stopped_jobs import finished

ARCHIVES = sorted(STATES.glob("*/*.tar.gz"))


def test_there_is_state_of_every_pipeline_and_format() -> None:
    for folder in STATES.iterdir():
        assert {path.name.removesuffix(".tar.gz") for path in folder.iterdir()} == set(PIPELINES)


@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda path: f"{path.parent.name}-{path.name.partition('.')[0]}")
@pytest.mark.parametrize("parallelism", [1, 2])
def test_state_of_earlier_versions_goes_on(archive: Path, parallelism: int, tmp_path: Path) -> None:
    pipeline = PIPELINES[archive.name.removesuffix(".tar.gz")]
    unpack(archive, tmp_path / "restored")
    whole = finished(pipeline, tmp_path / "whole")
    assert finished(pipeline, tmp_path / "restored", parallelism=parallelism) == whole
