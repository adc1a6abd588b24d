"""The book of leases of one machine's jobs: a file that processes have in turn."""

import subprocess
import sys
from pathlib import Path

import pytest

from penstock.engine.control.quota_file import QuotaFile
from penstock.model.errors import OptionError
from penstock.scheduler.shared_quota import Ask, Lease, OtherHolding

TAKES = """
import sys
from pathlib import Path
from penstock.engine.control.quota_file import QuotaFile
from penstock.scheduler.shared_quota import Ask
job, keeper = sys.argv[2], QuotaFile("team", Path(sys.argv[1]), lambda: 0.0)
for step in range(1, 101):
    got = keeper.take(Ask(job, 1.0 + step, 0.0, 50.0)).result()
print(got.cores)
"""


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_two_jobs_share_what_there_is(tmp_path: Path) -> None:
    clock = Clock()
    one, two = (QuotaFile("team", tmp_path, clock) for _ in range(2))
    assert one.renew(Lease("a", 3.0, 5.0)).before is None
    seen = two.renew(Lease("b", 1.0, 2.0))
    assert seen.others == (OtherHolding("a", 3.0, 5.0),)
    assert two.take(Ask("b", 2.0, 2.0, 4.0)).result().cores == 1.0
    one.leave("a")
    assert two.take(Ask("b", 2.0, 2.0, 4.0)).result().cores == 2.0
    # Who goes on with the job finds what it had, others find that it is gone once its term is over.
    clock.now_s = 9.0
    before = QuotaFile("team", tmp_path, clock).renew(Lease("b", 1.0, 2.0)).before
    assert before is not None and before.cores == 2.0
    clock.now_s = 30.0
    assert one.renew(Lease("a", 1.0, 1.0)).others == ()
    assert QuotaFile("other", tmp_path, clock).renew(Lease("c", 1.0, 1.0)).others == ()


def test_processes_that_ask_at_once_never_get_more_than_there_is(tmp_path: Path) -> None:
    # What a job has as it begins is its own, asked for or not: all have it before the first asks for more.
    names, keeper = [f"job-{number}" for number in range(3)], QuotaFile("team", tmp_path, lambda: 0.0)
    for name in names:
        keeper.renew(Lease(name, 1.0, 0.0))
    jobs = [
        subprocess.Popen([sys.executable, "-c", TAKES, str(tmp_path), name], stdout=subprocess.PIPE) for name in names
    ]
    got = [float(job.communicate()[0]) for job in jobs]
    assert all(job.returncode == 0 for job in jobs)
    assert sum(got) == 50.0 and min(got) >= 1.0


def test_what_was_kept_before_the_machine_started_anew_counts_no_more(tmp_path: Path) -> None:
    keeper = QuotaFile("team", tmp_path, Clock())
    keeper.renew(Lease("a", 3.0, 5.0))
    kept = tmp_path / "team.json"
    kept.write_text(kept.read_text().replace('"boot": "', '"boot": "other-'))
    assert keeper.renew(Lease("b", 1.0, 1.0)).others == ()


@pytest.mark.parametrize("name", ["", "../up", "a b", "x" * 65])
def test_what_is_no_name_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="quota is a name of letters"):
        QuotaFile(name, tmp_path)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OptionError, match="the quota 'team' cannot be kept in"):
        QuotaFile("team", tmp_path / "file" / "folder")
