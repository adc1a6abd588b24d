"""The launcher: what the process of a task manager finds there, and what is said of its end."""

import json
import os
import signal
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import pytest

from penstock.engine.executors.managers.leave_order import LeaveOrder
from penstock.engine.executors.processes.launcher import ProcessLauncher
from penstock.model.errors import BugError, RetryableError, UserError
from tests.engine.executors.processes.started import STAND_IN, WAIT_S, Started, started

ROOT = Path(__file__).resolve().parents[4]

PROGRAM = f"""
import json, sys
sys.path.append({str(ROOT)!r})
import sibling
from tests.engine.executors.processes.started import started
print("main runs")
with started("tm-0") as each:
    print(json.dumps(each.ask("tm-0", "surroundings")))
"""


def run_program(*command: str | Path, cwd: Path, text: str = "", **environment: str) -> dict[str, object]:
    """Run a program like `PROGRAM`, whose main must run once; return what a task manager of it sees."""
    ran = subprocess.run(
        command,
        cwd=cwd,
        input=text,
        capture_output=True,
        text=True,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | environment,
    )
    assert ran.returncode == 0, ran.stderr
    assert set(ran.stderr.split()) <= {">>>", "..."}, ran.stderr
    said, seen = ran.stdout.splitlines()
    assert said == "main runs"
    return dict(json.loads(seen))


@pytest.fixture
def program(tmp_path: Path) -> Path:
    (tmp_path / "sibling.py").write_text("")
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


def test_a_task_manager_finds_what_its_head_has() -> None:
    with started("tm-0") as each:
        seen = each.ask("tm-0", "surroundings")
        assert seen["path"] == [item for item in sys.path if isinstance(item, str)]
        assert seen["arguments"] == sys.argv
        assert seen["folder"] == str(Path.cwd())
        # Readline sets these two behind Python's back.
        assert {**os.environ, "COLUMNS": "", "LINES": ""} == {**seen["environment"], "COLUMNS": "", "LINES": ""}
        assert seen["threads"] == [1, 1]
        assert seen["inheritable"] == [] and seen["blocked"] == []
        assert seen["main_file"] is None
        assert seen["leads_its_session"]


def test_path_arguments_and_folder_are_those_of_the_beginning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["program.py", *(f"{number:0>20}.parquet" for number in range(20_000))])
    with started() as each:
        before = list(sys.argv), str(Path.cwd())
        monkeypatch.setattr(sys, "argv", ["other.py"])
        monkeypatch.chdir(tmp_path)
        each.start("tm-0")
        seen = each.ask("tm-0", "surroundings")
        assert (seen["arguments"], seen["folder"]) == before


@pytest.mark.parametrize("form", ["script", "module", "command", "prompt", "zip"])
def test_the_main_program_runs_once_whatever_it_is(program: Path, form: str) -> None:
    folder, python = program.parent, sys.executable
    match form:
        case "script":
            seen = run_program(python, program, cwd=folder.parent)
        case "module":
            seen = run_program(python, "-m", "program", cwd=folder)
        case "command":
            seen = run_program(python, "-c", PROGRAM, cwd=folder)
        case "prompt":
            lines = PROGRAM.replace(")\n", ")\n\n") + "\n"
            seen = run_program(python, "-i", "-q", cwd=folder, text=lines)
        case _:
            with zipfile.ZipFile(folder / "program.zip", "w") as archive:
                archive.writestr("__main__.py", PROGRAM)
                archive.writestr("sibling.py", "")
            (folder / "sibling.py").unlink()
            seen = run_program(python, folder / "program.zip", cwd=folder.parent)
    assert seen["main_file"] is None


def test_files_beside_the_program_do_not_stand_in_for_modules_of_libraries(program: Path) -> None:
    (program.parent / "queue.py").write_text("raise AssertionError('this is the one of the user')")
    penstock_first = f"import sys; sys.path.append({str(ROOT)!r}); sys.path.remove(''); import queue\n"
    with_sibling = penstock_first + f"sys.path.insert(0, {str(program.parent)!r})\n" + PROGRAM
    seen = run_program(sys.executable, "-c", with_sibling, cwd=program.parent)
    assert seen["path"][0] == str(program.parent)  # type: ignore[index]


def test_python_has_the_options_of_the_head(program: Path) -> None:
    options = ["-O", "-W", "error::UserWarning", "-X", "utf8", "-X", "int_max_str_digits=5000"]
    seen = run_program(
        sys.executable, *options, program, cwd=program.parent, PYTHONHASHSEED="7", PYTHONPATH="/of/the/user"
    )
    assert (seen["optimize"], seen["utf8_mode"], seen["isolated"]) == (1, 1, 0)
    assert seen["warnings"] == ["error::UserWarning"]
    assert seen["options"] == {"utf8": True, "int_max_str_digits": "5000"}
    environment: dict[str, str] = seen["environment"]  # type: ignore[assignment]
    assert (environment["PYTHONHASHSEED"], environment["PYTHONPATH"]) == ("7", "/of/the/user")


def test_an_isolated_interpreter_starts_isolated_ones(program: Path) -> None:
    here = f"import sys; sys.path.insert(0, {str(program.parent)!r})\n"
    assert run_program(sys.executable, "-I", "-c", here + PROGRAM, cwd=program.parent)["isolated"] == 1


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_head_without_standard_files_has_task_managers(closed: str, tmp_path: Path) -> None:
    code = (
        "from tests.engine.executors.processes.started import started\n"
        "with started('tm-0', 'tm-1') as each:\n"
        "    each.ask('tm-0', 'print', 2, 2, 5)\n"
        f"    open({str(tmp_path / 'answer')!r}, 'w').write(each.ask('tm-0', 'hello'))\n"
    )
    subprocess.run(["sh", "-c", f'exec "$0" -c "$1" {closed}', sys.executable, code], cwd=ROOT, check=True)
    assert (tmp_path / "answer").read_text() == "hello"


@pytest.mark.parametrize(
    ("words", "end"),
    [
        (["leave"], "it exited with status 0"),
        (["exit", 5], "it exited with status 5"),
        (["abort"], "it was killed by SIGABRT"),
    ],
)
def test_the_end_of_a_process_in_words(words: list[object], end: str) -> None:
    with started("tm-0") as each:
        assert each.launcher.ended("tm-0") is None
        each.say("tm-0", *words)
        assert each.launcher.ended("tm-0", WAIT_S) == end
        assert each.launcher.cpu_ns("tm-0") is None
        each.launcher.forget("tm-0")


def test_a_process_that_someone_else_kills_may_have_needed_too_much_memory() -> None:
    with started("tm-0") as each:
        os.kill(each.launcher.pid("tm-0"), signal.SIGKILL)
        assert each.listen("tm-0") is None
        ended = each.launcher.ended("tm-0", WAIT_S)
        assert ended == "it was killed by SIGKILL, as the kernel does where memory is short"
        each.launcher.kill("tm-0")
        assert each.launcher.ended("tm-0") == ended


@pytest.mark.parametrize("words", [["hello"], ["stop"]])
def test_a_process_that_is_killed_is_gone(words: list[object]) -> None:
    with started("tm-0", "tm-1") as each:
        each.ask("tm-0", *words)
        each.launcher.kill("tm-0")
        assert each.launcher.ended("tm-0") == "it was killed by SIGKILL"
        assert each.ask("tm-1", "hello") == "hello"
        each.launcher.forget("tm-1")
        each.drop("tm-1")
        each.start("tm-2")


def test_core_time_grows_with_work() -> None:
    with started("tm-0") as each:
        each.ask("tm-0", "hold")
        before_ns = each.launcher.cpu_ns("tm-0")
        assert before_ns is not None and before_ns > 0
        while (now_ns := each.launcher.cpu_ns("tm-0")) is not None and now_ns < before_ns + 50_000_000:
            pass
        assert now_ns is not None


def test_sigterm_lets_a_task_manager_leave_in_order() -> None:
    with started("tm-0") as each:
        os.kill(each.launcher.pid("tm-0"), signal.SIGTERM)
        assert each.listen("tm-0") == "left"
        assert each.launcher.ended("tm-0", WAIT_S) == "it exited with status 0"


def test_an_order_that_comes_before_anyone_takes_it_is_kept() -> None:
    given: list[str] = []
    early, late = LeaveOrder(), LeaveOrder()
    early.give()
    early.when_given(lambda: given.append("early"))
    late.when_given(lambda: given.append("late"))
    for _ in range(2):
        late.give()
    assert given == ["early", "late"] and early.is_given and late.is_given


def test_whoever_started_a_process_may_end_without_it() -> None:
    with started() as each:
        starter = threading.Thread(target=each.start, args=("tm-0",))
        starter.start()
        starter.join()
        assert each.ask("tm-0", "hello") == "hello"
        assert each.launcher.ended("tm-0") is None


IN_A_THREAD = """
import threading
from tests.engine.executors.processes.started import started

def run():
    with started("tm-0") as each:
        threading.main_thread().join()
        print(each.ask("tm-0", "hello"))

threading.Thread(target=run).start()
"""


def test_a_job_in_a_thread_may_go_on_when_the_main_thread_has_ended() -> None:
    ran = subprocess.run([sys.executable, "-c", IN_A_THREAD], cwd=ROOT, capture_output=True, text=True)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "hello\n", "")


def test_a_process_that_cannot_be_started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with started() as each:
        monkeypatch.setattr(sys, "executable", str(tmp_path / "none"))
        with pytest.raises(RetryableError, match=r"'tm-0' could not be started: .*No such file"):
            each.launcher.start("tm-0")
        monkeypatch.undo()
        each.start("tm-0")
        with pytest.raises(BugError, match="started twice"):
            each.launcher.start("tm-0")


def test_other_systems_are_refused_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(UserError, match=r"needs Linux, and this is darwin: leave the executor out"):
        ProcessLauncher("shop", 1)
    monkeypatch.undo()
    monkeypatch.setattr(sys, "executable", "")
    with pytest.raises(UserError, match=r"sys\.executable"):
        ProcessLauncher("shop", 1)


def test_nobody_starts_a_task_manager_by_hand() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "penstock.engine.executors.processes.child", "tm-0"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith("error: this is the process of a task manager") and ran.stderr.count("\n") == 1


def test_closing_twice_waits_for_those_that_leave_and_kills_the_others() -> None:
    each = Started(STAND_IN)
    each.start("tm-0", "tm-1")
    each.say("tm-0", "leave")
    each.ask("tm-1", "stop")
    processes = dict(each.launcher._processes)
    assert each.launcher.ended("tm-0", WAIT_S) == "it exited with status 0"
    each.close(grace_s=0.01)
    each.launcher.close(0.0)
    assert {name: process.returncode for name, process in processes.items()} == {"tm-0": 0, "tm-1": -signal.SIGKILL}
    with pytest.raises(BugError, match="after the launcher was closed"):
        each.launcher.start("tm-2")
