"""Task managers and head actors of a Ray cluster that is there, killed for real: what is committed is the oracle's."""

from pathlib import Path

import pytest

from penstock.benchmarks.nexmark.dataset import write_dataset
from penstock.chaos.compared_outputs import Outputs, Rows
from penstock.chaos.experiment import HEAD_ACTOR, ChaosOptions, ChaosReport
from penstock.chaos.head_trials import chaos_of
from penstock.cluster.heads import heads
from penstock.commands.loading import capture
from penstock.dsl.sink_relocation import output_folder
from penstock.engine.connectors.nexmark.config import NexmarkConfig
from penstock.model.job_graph import SinkSpec
from tests.chaos.kafka_outputs import committed_rows, oracle_rows
from tests.ray_cluster import GROUP, RayCluster

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group(GROUP)]

PIPELINE = Path(__file__).parents[1] / "chaos" / "nexmark_pipeline.py"
EVENTS = 1_000_000
RATE_PER_S = 1_000.0
QUERIES = {"q4": "changelog", "q5": "append", "q8": "append", "q11": "append"}


class JsonOutputs(Outputs):
    """JSON lines below the folder of each run."""

    def read(self, folder: Path, name: str, sink: SinkSpec) -> Rows:
        """Return them as the oracle's rows are written."""
        files = sorted(output_folder(folder, name).glob("part-*"))
        return committed_rows(sink.mode, [(None, line) for file in files for line in file.read_bytes().splitlines()])


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a data set as Parquet files."""
    folder = tmp_path_factory.mktemp("data-set")
    write_dataset(folder, NexmarkConfig(EVENTS, rate_per_s=RATE_PER_S), row_group_rows=10_000)
    return folder


def attack(folder: Path, cluster: RayCluster, directory: Path, query: str, options: ChaosOptions) -> ChaosReport:
    """Attack a query over files; nothing is lost and nothing there twice, and nothing is left on the cluster."""
    job, _ = capture(PIPELINE, options.arguments)
    expected = {"out": oracle_rows(query, directory)}
    trials = chaos_of(options, job.graph)
    report = trials(PIPELINE, job, options, folder / "runs", outputs=JsonOutputs(), expected=expected).run()
    check(report, options.kills)
    assert list(heads()) == [] and cluster.task_managers() == []
    return report


def check(report: ChaosReport, kills: int) -> None:
    assert report.failure is None, report.failure
    assert report.kills == kills and report.runs and report.rows and report.left_out == {}
    assert (report.lost, report.duplicated) == (0, 0), report
    print(f"{kills} kills: {[round(taken, 1) for taken in report.recoveries_s]} s")


def options_on(
    cluster: RayCluster, directory: Path, query: str, kills: int, *, kill_head: bool = False
) -> ChaosOptions:
    return ChaosOptions(
        kills,
        seed=kills,
        arguments=(query, QUERIES[query], str(directory)),
        checkpoint_interval="300ms",
        batch_rows=1_024,
        executor="ray",
        task_managers=2,
        address=cluster.address,
        kill_head=kill_head,
    )


@pytest.mark.long("a kill of each kind; test_on_ray.py and test_head_actor.py have one")
@pytest.mark.parametrize("kill_head", [False, True], ids=["task manager", "head actor"])
def test_a_process_on_ray_is_killed_and_the_command_runs_on(
    tmp_path: Path, on_ray: RayCluster, directory: Path, kill_head: bool
) -> None:
    options = options_on(on_ray, directory, "q5", 1, kill_head=kill_head)
    report = attack(tmp_path, on_ray, directory, "q5", options)
    assert set(report.killed) <= ({HEAD_ACTOR} if kill_head else {"tm-0", "tm-1", "tm-2", "tm-3"})


@pytest.mark.long("dozens of kills; test_a_process_on_ray_is_killed has one")
@pytest.mark.parametrize(("query", "kills"), [("q4", 4), ("q5", 3), ("q8", 3), ("q11", 3)])
def test_queries_over_files_are_exact_through_kills_of_task_managers(
    tmp_path: Path, on_ray: RayCluster, directory: Path, query: str, kills: int
) -> None:
    attack(tmp_path, on_ray, directory, query, options_on(on_ray, directory, query, kills))


@pytest.mark.long("dozens of kills; test_a_process_on_ray_is_killed has one")
@pytest.mark.parametrize(("query", "kills"), [("q4", 2), ("q5", 1), ("q8", 1), ("q11", 1)])
def test_queries_over_files_are_exact_through_kills_of_head_actors(
    tmp_path: Path, on_ray: RayCluster, directory: Path, query: str, kills: int
) -> None:
    options = options_on(on_ray, directory, query, kills, kill_head=True)
    report = attack(tmp_path, on_ray, directory, query, options)
    assert report.killed == {HEAD_ACTOR: kills}
