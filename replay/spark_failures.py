"""Errors of Spark turned into ours: a sentence that says what to do. Called by `session`.

Of what fails in its workers or in Java only a text comes back, so texts are looked at.
"""

from __future__ import annotations

import re

from penstock.model import errors
from penstock.model.errors import FatalError, PenstockError, RetryableError, UserError
from penstock.replay.frames import ReplayError

_OURS = re.compile(r"^penstock\.(?:model\.errors|replay\.frames)\.(\w+): (.+)$", re.MULTILINE)
_TRACEBACK = "Traceback (most recent call last):"
_LINE = re.compile(r'^ +File "([^"]+)", line (\d+)', re.MULTILINE)
_RAISED = re.compile(r"^((?:\w+\.)*\w*(?:Error|Exception): .+)$", re.MULTILINE)
_IN_JAVA = re.compile(r"^(?:Caused by)?: ((?:[\w$]+\.)+[\w$]+: .+)$", re.MULTILINE)
_OTHERS = {"ReplayError": ReplayError}
_LACKS = (
    (
        re.compile(r"^ModuleNotFoundError: No module named '([^']+)'", re.MULTILINE),
        "have no module {0!r}: let PYSPARK_PYTHON name a Python there that has it, or send a module of yours with "
        "--spark-setting spark.submit.pyFiles=FILE",
    ),
    (
        re.compile(r'Cannot run program "([^"]+)"'),
        "have no {0!r}: let PYSPARK_PYTHON name a Python there that has Penstock",
    ),
    (
        re.compile(r"Python in worker has different version: (\S+) than that in driver: (\d+\.\d+)"),
        "run Python {0}, and this is {1}: let PYSPARK_PYTHON name a Python {1} there that has Penstock",
    ),
)
"""What workers of a cluster may lack: how Spark says so, and what to say of the workers."""
_GONE = ("Connection refused", "Answer from Java side is empty", "failed to connect to all addresses")
_LONGEST = 400

_SEE = "see 'Replay on a cluster' in the documentation"


def spark_errors() -> tuple[type[Exception], ...]:
    """Return what Spark raises of its own, also when its Java is gone."""
    from pyspark.errors import PySparkException

    try:
        from py4j.protocol import Py4JError
    except ImportError:  # the thin package of Spark Connect is without it
        return PySparkException, ConnectionError
    return PySparkException, Py4JError, ConnectionError


def failure_of(error: BaseException) -> PenstockError:
    """Return what Spark has raised as one of our errors."""
    text = str(error)
    return worker_failure(error) or _lack(text) or _other(text)


def worker_failure(error: BaseException) -> PenstockError | None:
    """Return what Penstock raised in one of Spark's workers; None if it did not."""
    text = str(error)
    matches = list(_OURS.finditer(text))
    kind = getattr(errors, matches[-1][1], None) or _OTHERS.get(matches[-1][1]) if matches else None
    if not isinstance(kind, type) or not issubclass(kind, PenstockError):
        return None
    message, rest = matches[-1][2], text[matches[-1].end() :]
    return kind(message.removesuffix(_TRACEBACK) + _cause(rest) if message.endswith(_TRACEBACK) else message)


def _cause(text: str) -> str:
    """Return what the rest of a traceback ends with: the error of a user's function, and the line that raised it."""
    raised = _RAISED.search(text)
    if raised is None:
        return "it failed"
    lines = _LINE.findall(text[: raised.start()])
    return raised[1] + (f" ({lines[-1][0]}:{lines[-1][1]})" if lines else "")


def _lack(text: str) -> PenstockError | None:
    """Return what workers of a cluster lack, if that is it."""
    for pattern, sentence in _LACKS:
        if match := pattern.search(text):
            return UserError(f"Spark's workers {sentence.format(*match.groups())}; {_SEE}")
    return None


def _other(text: str) -> PenstockError:
    if any(sign in text for sign in _GONE):
        return RetryableError(
            "Spark is gone: out of memory, perhaps, which --spark-setting spark.driver.memory=4g gives it; or it was "
            "stopped"
        )
    raised = _RAISED.findall(text) or _IN_JAVA.findall(text)
    lines = [line.strip() for line in text.splitlines() if line.strip()] or ["it does not say why"]
    sentence = raised[-1] if raised else lines[0]
    return FatalError(f"Spark failed: {sentence[:_LONGEST]} (--debug shows all that it says)")
