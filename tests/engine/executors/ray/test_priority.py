"""Actors on Ray yield to other processes no more than the raylet does."""

import os
import subprocess
import sys

PROGRAM = """
import os, threading
release, begun = threading.Event(), threading.Event()
def wait():
    begun.set()
    release.wait()
os.setpriority(os.PRIO_PROCESS, 0, os.getpriority(os.PRIO_PROCESS, os.getppid()) + 3)
other = threading.Thread(target=wait)
other.start()
begun.wait()
from penstock.engine.executors.ray.priority import take_priority_of_parent
take_priority_of_parent()
print(*{os.getpriority(os.PRIO_PROCESS, thread) for thread in (0, other.native_id)})
release.set()
"""


def test_all_threads_take_the_priority_of_the_parent_if_they_may() -> None:
    own = os.getpriority(os.PRIO_PROCESS, 0)
    output = subprocess.run([sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True).stdout
    assert int(output) == (own if os.geteuid() == 0 else own + 3)


def test_a_task_manager_has_its_priority_before_it_imports_libraries() -> None:
    program = (
        "import sys, penstock.engine.executors.ray.actor; print(*{'numba', 'numpy', 'pyarrow', 'ray'} & {*sys.modules})"
    )
    output = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    assert output == "\n"
