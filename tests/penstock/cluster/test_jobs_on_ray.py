"""A job on Ray that serves its HTTP API, asked by URL and by name; and what is left when all are stopped."""

import json
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import ray
from ray.experimental import internal_kv
from ray.util import list_named_actors
from ray.util.placement_group import placement_group_table

from penstock.cluster.head_notes import HeadNotes, noted_jobs
from penstock.commands.jobs_on_ray import job_on_ray
from penstock.commands.running_job import client_of
from penstock.engine.executors.ray.cluster import NAMESPACE
from tests.contracts.executors.metered import until
from tests.penstock.cluster.programs import HALF, Program, ended, written_program
from tests.ray_cluster import GROUP, RayCluster

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group(GROUP)]


@pytest.fixture
def program(on_ray: RayCluster, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Program]:
    """Return a program whose job ends with the test."""
    with written_program(tmp_path, request.node.name, on_ray.address) as program:
        yield program


def asked(program: Program, *command: str) -> str:
    """Carry out a command of a name or a URL, and return what it prints."""
    code, out, err = ended(program.penstock(*command))
    assert code == 0, err
    return out


def processes_of_ours(cluster: RayCluster) -> list[psutil.Process]:
    """Return the processes of heads and task managers that live."""
    found = []
    for process in cluster.keeper.children(recursive=True):
        try:
            if re.search("HeadActor|TaskManagerActor|cpu_witness", " ".join(process.cmdline())):
                found.append(process)
        except (psutil.NoSuchProcess, psutil.ZombieProcess):
            continue
    return found


def places_of_ours() -> list[str]:
    """Return the placement groups that are there."""
    return [key for key, group in placement_group_table().items() if group["state"] != "REMOVED"]


def test_a_job_is_asked_by_url_and_by_name_and_when_all_are_stopped_nothing_is_left(
    program: Program, on_ray: RayCluster
) -> None:
    driver = program.start("--metrics-port", "0")
    head = program.await_half()
    program.await_committed()
    until(lambda: head.report().metrics_url is not None)
    url = head.report().metrics_url
    assert url is not None and url.startswith("http://127.0.0.1:")
    at = "--address", program.address
    with job_on_ray(program.name, program.address) as named:
        for job in (named, client_of(url, "metrics_token", None)):
            metrics = job.metrics()
            assert (metrics.name, metrics.source_rows) == (program.name, HALF)
    assert "savepoint 'friday'" in asked(program, "savepoint", url, "friday")
    HeadNotes("killed from outside", "token").keep_plan(b"a plan")
    asked(program, "stop", "--all", *at)
    assert ended(driver)[0] == 0
    assert not noted_jobs()
    assert internal_kv._internal_kv_list(b"", namespace=NAMESPACE.encode()) == []
    assert [name for name in list_named_actors(all_namespaces=True) if name["namespace"] == NAMESPACE] == []
    until(lambda: not places_of_ours())
    until(lambda: not processes_of_ours(on_ray))
    left = {path.name for path in program.folder.iterdir()}
    assert left == {"program.py", "words.py", "begun", "out", "checkpoints"} | left.intersection(
        {"__pycache__", ".penstock"}
    )
    assert not [path for path in (program.folder / ".penstock").rglob("*") if path.is_file()]
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", int(url.rsplit(":", 1)[1].partition("/")[0])))


@pytest.mark.long("a head actor; a job without one is stopped so in tests/penstock/commands/test_job_commands.py")
def test_a_job_is_stopped_by_its_url_and_its_driver_hears_of_it(program: Program) -> None:
    driver = program.start("--metrics-port", "0")
    head = program.await_half()
    program.await_committed()
    until(lambda: head.report().metrics_url is not None)
    url = head.report().metrics_url
    assert url is not None
    at = "--address", program.address
    assert json.loads(asked(program, "status", program.name, "--json", *at))["metrics_url"] == url
    for place in ([url], [program.name, *at]):
        look = json.loads(asked(program, "top", *place, "--once", "--json", "--interval", "50ms"))
        assert look["job"] == program.name and look["metrics"]["source_rows"] == HALF
    assert "savepoint 'monday'" in asked(program, "savepoint", program.name, "monday", *at)
    code, _, err = ended(program.penstock("limits", program.name, "--reset", *at))
    assert code == 2 and "the job has no control of load" in err
    assert "has ended" in asked(program, "stop", url, "--savepoint", "friday")
    code, _, err = ended(driver)
    assert code == 0 and f"metrics at {url}, on the node" in err
    assert (program.folder / "checkpoints" / program.name / "savepoints" / "friday").is_dir()


@pytest.mark.long("a server of Ray Client, and a driver of its own; the commands by name stay")
def test_a_machine_that_is_no_node_asks_and_stops_through_ray_client(program: Program, on_ray: RayCluster) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
    gate = subprocess.Popen(
        [
            *(sys.executable, "-m", "ray.util.client.server", "--mode", "specific-server"),
            *("--address", on_ray.address, "--host", "127.0.0.1", "--port", port),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        driver = program.start()
        program.await_half()
        at = "--address", f"ray://127.0.0.1:{port}"
        assert program.name[:40] in asked(program, "list", *at)
        look = json.loads(asked(program, "top", program.name, "--once", "--json", "--interval", "50ms", *at))
        assert look["job"] == program.name
        asked(program, "stop", program.name, *at)
        assert ended(driver)[0] == 0
    finally:
        gate.kill()
        gate.wait(60)
    assert ray.is_initialized()
