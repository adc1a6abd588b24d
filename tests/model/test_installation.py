"""Commands that install extras work for the copy that is there, whatever it came from."""

import subprocess
import sys
from pathlib import Path

import pytest

from penstock.model.installation import (
    FROM_A_CHECKOUT,
    Origin,
    extra_install_command,
    install_command,
    origin,
    recorded_origin,
)

ROOT = Path(__file__).resolve().parents[2]


def test_a_checkout_is_named_by_its_folder() -> None:
    noted = {"url": ROOT.as_uri(), "dir_info": {"editable": True}}
    assert install_command("broker", recorded_origin(noted)) == f"pip install -e '{ROOT}[broker]'"
    assert (
        install_command("broker", recorded_origin({"url": ROOT.as_uri(), "dir_info": {}}))
        == f"pip install '{ROOT}[broker]'"
    )


def test_a_wheel_is_named_by_its_file(tmp_path: Path) -> None:
    wheel = tmp_path / "penstock 1.whl"
    wheel.touch()
    noted = {"url": wheel.as_uri(), "archive_info": {}}
    assert install_command("sql", recorded_origin(noted)) == f"pip install 'penstock[sql] @ {wheel.as_uri()}'"
    wheel.unlink()
    assert recorded_origin(noted) is None


def test_a_repository_is_named_with_its_commit() -> None:
    noted = {"url": "ssh://git@host.example/penstock.git", "vcs_info": {"vcs": "git", "commit_id": "0123abcd"}}
    found = recorded_origin(noted)
    assert found == Origin("git+ssh://git@host.example/penstock.git@0123abcd")
    assert found.requirement == "penstock @ git+ssh://git@host.example/penstock.git@0123abcd"


def test_what_is_not_known_is_a_checkout() -> None:
    assert install_command("spark", None) == "pip install -e '.[spark]' in a checkout of Penstock"
    assert FROM_A_CHECKOUT.format(extra="spark") == install_command("spark", None)


@pytest.mark.parametrize("noted", [{}, {"url": ""}, {"url": "file:///no/such/folder", "dir_info": {}}])
def test_an_origin_that_is_gone_is_not_known(noted: dict[str, object]) -> None:
    assert recorded_origin(noted) is None


def test_the_command_of_this_copy_is_understood_by_pip() -> None:
    """pip resolves nothing here: it only reads the name, the extra and the place."""
    known = origin()
    assert known is not None and str(ROOT) in extra_install_command("sql")
    script = "import sys; from pip._vendor.packaging.requirements import Requirement as R; print(R(sys.argv[1]).extras)"
    asked = f"penstock[sql] @ {known.url}"
    ran = subprocess.run([sys.executable, "-c", script, asked], capture_output=True, text=True, check=False)
    assert ran.stdout.strip() == "{'sql'}", ran.stderr
