"""A cluster whose Ray speaks TLS: task managers and the head of a job do, too."""

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from penstock.engine.executors.ray.tls_of_cluster import tls_files_here
from penstock.engine.transport.tls import TlsFiles
from penstock.model.errors import OptionError
from tests.certificates import make_authority, make_certificate

PROGRAM = """
    import penstock as ps

    def where(row):
        import os
        return {"auction": row["auction"], "tls": os.environ.get("RAY_USE_TLS", "")}

    bids = ps.read_nexmark("bid", ps.NexmarkConfig(events=50_000))
    counts = bids.map(where, {"auction": int, "tls": str}).key_by("auction", "tls").agg(n=ps.count()).collect()
    ps.run("secret", executor="ray", task_managers=2, parallelism=2, transport="tcp", attached=True)
    print(sum(row["n"] for row in counts.rows()), {row["tls"] for row in counts.rows()})
"""

FILES = {"RAY_TLS_SERVER_CERT": "own.pem", "RAY_TLS_SERVER_KEY": "own.key", "RAY_TLS_CA_CERT": "authority.pem"}


def test_its_files_are_those_of_ray() -> None:
    expected = TlsFiles(Path("own.pem"), Path("own.key"), Path("authority.pem"))
    assert tls_files_here({"RAY_USE_TLS": "1", **FILES}) == expected
    assert tls_files_here({"RAY_USE_TLS": "True", **FILES}) == expected
    assert tls_files_here({"RAY_USE_TLS": "0", **FILES}) is None
    assert tls_files_here({}) is None


def test_a_file_that_is_not_named_is_missed() -> None:
    with pytest.raises(OptionError, match="RAY_USE_TLS is set, and RAY_TLS_SERVER_KEY and RAY_TLS_CA_CERT not"):
        tls_files_here({"RAY_USE_TLS": "1", "RAY_TLS_SERVER_CERT": "own.pem"})


@pytest.mark.slow
@pytest.mark.long("a cluster of its own, begun with certificates; links with TLS are tested in make test")
def test_rows_cross_a_cluster_that_speaks_tls(tmp_path: Path) -> None:
    import ray

    authority = make_authority(tmp_path / "authority.pem")
    own = make_certificate(authority, tmp_path / "own.pem", ray.util.get_node_ip_address())
    tls = {"RAY_USE_TLS": "1", **dict.fromkeys(FILES, str(own)), "RAY_TLS_CA_CERT": str(authority.file)}
    ran = subprocess.run(
        [sys.executable, "-c", dedent(PROGRAM)],
        cwd=tmp_path,
        env={**os.environ, **tls},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[-1] == "46000 {'1'}"
