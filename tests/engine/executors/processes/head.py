"""A head in a process of its own: ``python -m tests.engine.executors.processes.head PLAN``, a JSON object.

It starts a stand-in for each list of words in ``managers``, says these to it, prints the process ids as a JSON list and
waits for its end. With ``terminal`` its standard input becomes its terminal; after a Ctrl-C it prints their answers.
"""

import fcntl
import json
import os
import sys
import termios

from tests.engine.executors.processes.started import STAND_IN, Started


def main(plan: dict[str, object]) -> None:
    if plan.get("terminal"):
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    if "executable" in plan:
        sys.executable = str(plan["executable"])
    managers: list[list[object]] = plan["managers"]  # type: ignore[assignment]
    each = Started(str(plan.get("service", STAND_IN)))
    names = [f"tm-{number}" for number in range(len(managers))]
    if plan.get("service"):
        for name in names:
            each.launcher.start(name).detach()
    else:
        each.start(*names)
    for name, words in zip(names, managers, strict=True):
        if words:
            each.ask(name, *words)
        if words == ["stop"]:
            os.waitid(os.P_PID, each.launcher.pid(name), os.WSTOPPED | os.WNOWAIT)
    try:
        print(json.dumps([each.launcher.pid(name) for name in names]), flush=True)
        sys.stdin.read()
    except KeyboardInterrupt:
        print(json.dumps([each.ask(name, "interrupts") for name in names]), flush=True)
    each.close()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
