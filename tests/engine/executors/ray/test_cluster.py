"""Which cluster a job is on, and what of a program goes there."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.engine.executors.ray.cluster import connected, free_cpus, has_cluster
from penstock.model.errors import OptionError
from tests.ray_cluster import CPUS, GROUP, RayCluster

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group(GROUP)]

JOINING = """
import signal, sys
from penstock.engine.executors.ray.cluster import connected
from penstock.model.errors import PenstockError

def own(number, frame):
    pass

signal.signal(signal.SIGTERM, own)
try:
    with connected(sys.argv[1], 1):
        print("connected", signal.getsignal(signal.SIGTERM) is own)
except PenstockError as error:
    print(type(error).__name__, error)
"""


def joining(folder: Path, address: str, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> str:
    """Return what a program of a folder says that joins a cluster."""
    folder.mkdir(exist_ok=True)
    (folder / "program.py").write_text(JOINING)
    with monkeypatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        ran = subprocess.run(
            [sys.executable, "program.py", address], cwd=folder, capture_output=True, text=True, timeout=100, check=True
        )
    return ran.stdout.strip()


def test_a_cluster_that_the_program_has_joined_is_used_and_stays(on_ray: RayCluster) -> None:
    import ray

    assert has_cluster(None)
    for address in (None, "auto", on_ray.address):
        assert free_cpus(address) == CPUS
        with connected(address, 1):
            assert ray.is_initialized()
        assert ray.is_initialized()
    with pytest.raises(OptionError, match=f"connected to the Ray cluster at '{on_ray.address}'"):
        free_cpus("10.0.0.5:6379")
    with pytest.raises(OptionError, match="Ray Client"):
        free_cpus("ray://10.0.0.5:10001")


def test_a_program_joins_with_its_folder_and_keeps_its_signals(
    tmp_path: Path, ray_cluster: RayCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert joining(tmp_path / "program", ray_cluster.address, {}, monkeypatch) == "connected True"


@pytest.mark.long("two programs that join; test_a_program_joins_with_its_folder stays")
def test_a_folder_that_is_too_large_and_a_wrong_token_are_refused(
    tmp_path: Path, ray_cluster: RayCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "program"
    folder.mkdir()
    (folder / "large.bin").write_bytes(os.urandom(1 << 16))
    said = joining(folder, ray_cluster.address, {"RAY_max_grpc_message_size": "2000"}, monkeypatch)
    assert said.startswith(f"OptionError the program's folder {folder} is too large"), said
    said = joining(folder, ray_cluster.address, {"RAY_AUTH_TOKEN": "another" * 8}, monkeypatch)
    assert said.startswith("UserError the Ray cluster at") and "RAY_AUTH_TOKEN" in said, said
