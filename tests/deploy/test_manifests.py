"""What is deployed by Docker Compose and KubeRay: of known fields, with commands that there are, ready, unhurried."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from ray.scripts.scripts import cli as ray_commands

from tests.command_line import commands
from tests.deploy.compose_file import ComposeFile
from tests.deploy.kuberay_file import ClusterSpec, ConfigMap, Container, PodSpec, RayCluster, RayJob
from tests.long_cases import but_for

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
COMPOSE = ["kafka/compose.yaml", "ray/compose.yaml"]
KUBERAY = ["kuberay/raycluster.yaml", "kuberay/rayjob.yaml"]


def compose(name: str) -> ComposeFile:
    raw = yaml.safe_load((DEPLOY / name).read_text())
    return msgspec.convert({key: value for key, value in raw.items() if not key.startswith("x-")}, ComposeFile)


def job() -> tuple[RayJob, ConfigMap]:
    first, second = yaml.safe_load_all((DEPLOY / "kuberay/rayjob.yaml").read_text())
    return msgspec.convert(first, RayJob), msgspec.convert(second, ConfigMap)


def cluster(name: str) -> ClusterSpec:
    if name == "kuberay/rayjob.yaml":
        return job()[0].spec.ray_cluster_spec
    return msgspec.convert(yaml.safe_load((DEPLOY / name).read_text()), RayCluster).spec


def pods(spec: ClusterSpec) -> list[PodSpec]:
    return [spec.head_group_spec.template.spec, *(group.template.spec for group in spec.worker_group_specs)]


def containers(spec: ClusterSpec) -> list[Container]:
    return [container for pod in pods(spec) for container in pod.containers]


@pytest.mark.parametrize("name", COMPOSE)
def test_compose_files_are_of_known_fields_and_refer_to_what_there_is(name: str) -> None:
    file = compose(name)
    for service in file.services.values():
        assert set(service.depends_on) <= set(file.services)
        for dependency, needed in service.depends_on.items():
            has_check = file.services[dependency].healthcheck is not None
            assert has_check or needed.condition != "service_healthy"
        for port in service.ports:
            assert port.startswith("127.0.0.1:"), "no port leaves the machine"
        for volume in service.volumes:
            source = volume.partition(":")[0]
            assert source in file.volumes or (DEPLOY / name).parent.joinpath(source).is_dir()
        if service.build is not None:
            context = (DEPLOY / name).parent / service.build.context
            assert context.resolve() == ROOT and (context / service.build.dockerfile).is_file()


@pytest.mark.parametrize("name", KUBERAY)
def test_nodes_say_when_they_are_ready_end_without_haste_and_are_not_root(name: str) -> None:
    spec = cluster(name)
    assert spec.head_group_spec.ray_start_params["num-cpus"] == "0"
    for pod in pods(spec):
        assert pod.security_context.run_as_non_root
        for container in pod.containers:
            for probe in (container.readiness_probe, container.liveness_probe):
                assert (probe.exec is None) is not (probe.http_get is None)
            assert container.liveness_probe.initial_delay_seconds > container.readiness_probe.initial_delay_seconds
            assert not container.security_context.allow_privilege_escalation
            assert {mount.name for mount in container.volume_mounts} == {volume.name for volume in pod.volumes}
            command = container.lifecycle.pre_stop.exec.command
            if command[0] == "sleep":
                assert int(command[1]) < pod.termination_grace_period_seconds
            else:
                assert command == ["penstock", "stop", "--all"]


def test_the_version_of_ray_is_that_of_the_image() -> None:
    locked = re.search(r"^ray==(\S+)$", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    assert locked is not None
    assert {cluster(name).ray_version for name in KUBERAY} == {locked[1]}


def test_the_cluster_of_the_job_is_the_one_beside_it_but_for_its_pipeline() -> None:
    def bare(spec: ClusterSpec) -> Any:
        data = msgspec.to_builtins(spec)
        for pod in [data["headGroupSpec"], *data["workerGroupSpecs"]]:
            pod["template"]["spec"]["volumes"] = []
            for container in pod["template"]["spec"]["containers"]:
                container["volumeMounts"] = []
        return data

    assert bare(cluster(KUBERAY[0])) == bare(cluster(KUBERAY[1]))


def written_commands() -> Iterator[list[str]]:
    """Yield every command of Penstock and of Ray that is carried out somewhere."""
    for name in COMPOSE:
        for service in compose(name).services.values():
            if service.command is not None:
                yield service.command
            if service.healthcheck is not None and isinstance(service.healthcheck.test, list):
                yield service.healthcheck.test[1:]
    for name in KUBERAY:
        spec = cluster(name)
        groups = [spec.head_group_spec, *spec.worker_group_specs]
        yield from (["ray", "start", *(f"--{option}" for option in group.ray_start_params)] for group in groups)
        for container in containers(spec):
            yield container.lifecycle.pre_stop.exec.command
            probes = container.readiness_probe, container.liveness_probe
            yield from (probe.exec.command for probe in probes if probe.exec is not None)
    yield shlex.split(job()[0].spec.entrypoint)


def test_commands_and_options_are_those_that_there_are() -> None:
    ours, seen = commands(), set()
    for words in written_commands():
        if words[0] == "penstock":
            known = {option for item in ours[words[1]].params for option in item.opts}
        elif words[0] == "ray":
            known = {option for item in ray_commands.commands[words[1]].params for option in item.opts}
        else:
            continue
        seen.add(" ".join(words[:2]))
        assert {word.partition("=")[0] for word in words if word.startswith("--")} <= known, words
    assert seen == {"penstock run", "penstock submit", "penstock stop", "ray start", "ray health-check"}


@pytest.mark.parametrize("name", but_for(["fill.py", "bids.py"], ["bids.py"], "a process; the other one stays"))
def test_the_pipelines_of_the_example_can_be_planned(name: str) -> None:
    command = [sys.executable, "-m", "penstock", "explain", str(DEPLOY / "ray" / "example" / name)]
    environment = {**os.environ, "KAFKA": "127.0.0.1:1", "DATA": "/data"}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=100)
    assert "bids" in ran.stdout


def test_the_pipeline_of_the_config_map_runs_with_checkpoints(tmp_path: Path) -> None:
    entrypoint, (name, text) = shlex.split(job()[0].spec.entrypoint), *job()[1].data.items()
    assert f"/pipeline/{name}" in entrypoint
    assert "100_000_000" in text
    (tmp_path / name).write_text(text.replace("100_000_000", "100_000"))
    command = [sys.executable, "-m", "penstock", "run", name, "--checkpoint-dir", "checkpoints"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=100)
    assert "channel=Baidu" in ran.stdout


@pytest.mark.parametrize("change", [{"shm-size": "1g"}, {"depends_on": {"kafka": {"condition": "healthy"}}}])
def test_a_field_that_there_is_not_is_seen(change: dict[str, Any]) -> None:
    raw = yaml.safe_load((DEPLOY / "ray/compose.yaml").read_text())
    raw["services"]["submit"] |= change
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({key: value for key, value in raw.items() if not key.startswith("x-")}, ComposeFile)
