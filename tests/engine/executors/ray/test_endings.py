"""What Ray says of an actor's end, in one sentence."""

import pytest
from ray.exceptions import ActorDiedError, OutOfMemoryError, RayError, RuntimeEnvSetupError

from penstock.engine.executors.ray.endings import ending_in_words

HEAD = (
    "The actor died unexpectedly before finishing this task.\n\tclass_name: TaskManagerActor\n\tactor_id: 1f48\n"
    "\tpid: 10995\n\tname: shop, run 1\n\tnamespace: penstock\n\tip: 192.0.2.2\n"
)
WORKER = "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: "


class DiedError(ActorDiedError):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.error_msg = text


ENDINGS = {
    "killed": (
        DiedError(
            f"{HEAD}{WORKER}Worker unexpectedly exits with a connection error code 2. End of file. Some common causes "
            "include: (1) the process was killed by the OOM killer due to high memory usage, (2) ray stop --force"
        ),
        "its process has died; it was killed, for want of memory perhaps, or has crashed",
    ),
    "exit": (
        DiedError(f"{HEAD}{WORKER}Worker exits unexpectedly. Worker exits with an exit code 4."),
        f"{WORKER}Worker exits unexpectedly. Worker exits with an exit code 4.",
    ),
    "by us": (DiedError(f"{HEAD}The actor is dead because it was killed by `ray.kill`."), "it was ended by ray.kill"),
    "node": (
        DiedError(
            f"{HEAD}The actor died because its node has died. Node Id: 76c7, the node was terminated unexpectedly"
        ),
        "its node is lost: The actor died because its node has died. Node Id: 76c7, the node was terminated "
        "unexpectedly",
    ),
    "beginning": (
        DiedError(
            "The actor died because of an error raised in its creation task, \x1b[36mray::tm-0:T.__init__()\x1b[39m "
            "(pid=1)\n  File x\nModuleNotFoundError: No module named 'penstock'"
        ),
        "it could not begin: ModuleNotFoundError: No module named 'penstock'",
    ),
    "memory": (
        OutOfMemoryError("Task was killed due to the node running low on memory.\nMemory on the node was 15 GB"),
        "Ray killed it, as memory is short on its node: Task was killed due to the node running low on memory.",
    ),
    "environment": (RuntimeEnvSetupError("no such file"), "Ray could not prepare its process: "),
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_each_ending_is_a_sentence(ending: str) -> None:
    error, words = ENDINGS[ending]
    assert isinstance(error, RayError)
    assert ending_in_words(error).startswith(words) and "\n" not in ending_in_words(error)
