"""A task manager finds the user's modules and files as its head does, or is refused."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.engine.executors.managers.visible_files import visible_files
from penstock.engine.executors.ray.worker_home import WorkerHome, home_here
from penstock.model.errors import UserError

ENTERED = """
import json, os, pickle, sys
from penstock.engine.executors.ray.worker_home import WorkerHome
home = WorkerHome(**json.loads(sys.argv[1]))
home.enter()
import model, state
print(json.dumps([os.getcwd(), sys.argv, model.__file__, state.NAME]))
"""


def entered(home: WorkerHome, folder: Path) -> list[object]:
    """Return what a process has that has entered a home from a folder: its folder, arguments, and modules."""
    values = {name: getattr(home, name) for name in WorkerHome.__dataclass_fields__}
    ran = subprocess.run(
        [sys.executable, "-c", ENTERED, json.dumps(values)], cwd=folder, capture_output=True, text=True, check=True
    )
    values_there: list[object] = json.loads(ran.stdout)
    return values_there


@pytest.fixture
def home(tmp_path: Path) -> WorkerHome:
    """Return the home of a program with folders named as ours are."""
    program = tmp_path / "program"
    for folder in (program, tmp_path / "copy"):
        for module in ("model", "state"):
            (folder / module).mkdir(parents=True)
            (folder / module / "__init__.py").write_text(f"NAME = 'the user has {module}'\n")
    return replace(
        home_here(), folder=str(tmp_path), program=str(program), path=(str(program), *sys.path), arguments=("a.py", "7")
    )


def test_where_files_are_the_same_all_is_as_the_head_has_it(home: WorkerHome, tmp_path: Path) -> None:
    folder, arguments, module, name = entered(home, tmp_path / "copy")
    assert (folder, arguments, name) == (str(tmp_path), ["a.py", "7"], "the user has state")
    assert module == str(tmp_path / "program" / "model" / "__init__.py")


def test_elsewhere_modules_are_those_of_the_copy(home: WorkerHome, tmp_path: Path) -> None:
    folder, arguments, module, name = entered(replace(home, files="another host"), tmp_path / "copy")
    assert (folder, arguments, name) == (str(tmp_path / "copy"), ["a.py", "7"], "the user has state")
    assert module == str(tmp_path / "copy" / "model" / "__init__.py")


def test_modules_below_the_programs_folder_are_in_the_copy_and_others_are_not(tmp_path: Path) -> None:
    home = replace(home_here(), folder="/work", program="/work/jobs", path=("jobs", "/work/jobs/lib", "/usr/lib", ""))
    assert home.path_below(tmp_path) == [str(tmp_path), str(tmp_path / "lib")]


def test_variables_that_tests_set_go_on_to_task_managers_of_a_head_actor(home: WorkerHome, tmp_path: Path) -> None:
    text = ENTERED.replace("import model", "print(os.environ['PENSTOCK_FAILPOINT_ONCE']); import model")
    values = {name: getattr(home, name) for name in WorkerHome.__dataclass_fields__}
    values["environment"] = {"PENSTOCK_FAILPOINT_ONCE": "struck"}
    ran = subprocess.run(
        [sys.executable, "-c", text, json.dumps(values)], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert ran.stdout.splitlines()[0] == "struck"


def test_other_versions_are_refused_by_name() -> None:
    home = home_here()
    home.check("10.0.0.7")
    with pytest.raises(UserError, match=r"the node 10\.0\.0\.7 of the Ray cluster has pyarrow \S+ \(the head: 1\.0\)"):
        replace(home, versions={**home.versions, "pyarrow": "1.0"}).check("10.0.0.7")


def test_files_are_the_same_for_all_processes_of_a_container() -> None:
    text = "from penstock.engine.executors.managers.visible_files import visible_files; print(visible_files())"
    ran = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True, cwd="/")
    assert ran.stdout.strip() == visible_files() and os.linesep not in visible_files()
