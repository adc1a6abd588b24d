"""Task managers on Ray yield to other processes no more than the raylet does."""

import os
import subprocess
import sys

PROGRAM = """
import os
os.setpriority(os.PRIO_PROCESS, 0, os.getpriority(os.PRIO_PROCESS, os.getppid()) + 3)
from penstock.engine.executors.ray.priority import take_priority_of_parent
take_priority_of_parent()
print(os.getpriority(os.PRIO_PROCESS, 0))
"""


def test_a_process_takes_the_priority_of_its_parent_if_it_may() -> None:
    own = os.getpriority(os.PRIO_PROCESS, 0)
    output = subprocess.run([sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True).stdout
    assert int(output) == (own if os.geteuid() == 0 else own + 3)
