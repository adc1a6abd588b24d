"""State that earlier versions wrote: it is restored, and the job goes on to the answer of one that never stopped."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.fixtures.write_states import STATES, unpack
from tests.penstock.front_door import Row
from tests.penstock.recovery.stateful_pipelines import PIPELINES
from tests.penstock.recovery.stopped_jobs import finished

ARCHIVES = sorted(STATES.glob("*/*.tar.gz"))


def test_there_is_state_of_every_pipeline_and_format() -> None:
    for folder in STATES.iterdir():
        assert {path.name.removesuffix(".tar.gz") for path in folder.iterdir()} == set(PIPELINES)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], list[Row]]:
    """Return what a pipeline writes that never stopped."""

    @cache
    def answer(pipeline: str) -> list[Row]:
        return finished(PIPELINES[pipeline], tmp_path_factory.mktemp("whole"))

    return answer


@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda path: f"{path.parent.name}-{path.name.partition('.')[0]}")
@pytest.mark.parametrize("parallelism", [1, 2])
def test_state_of_earlier_versions_goes_on(
    archive: Path, parallelism: int, tmp_path: Path, whole: Callable[[str], list[Row]]
) -> None:
    pipeline = archive.name.removesuffix(".tar.gz")
    unpack(archive, tmp_path)
    assert finished(PIPELINES[pipeline], tmp_path, parallelism=parallelism) == whole(pipeline)
