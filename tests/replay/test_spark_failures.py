"""What Spark raises comes out as one of our errors, in a sentence."""

import pytest

from penstock.model.errors import BadRecordError, FatalError, PenstockError, RetryableError, UserError
from penstock.replay.spark_failures import failure_of, worker_failure

CLUSTER = "Job aborted due to stage failure: Task 0 in stage 0.0 failed 4 times, most recent failure: Lost task\n"


@pytest.mark.parametrize(
    ("text", "raised"),
    [
        ("Traceback...\npenstock.model.errors.UserError: it is gone\n SQLSTATE: 38000", UserError("it is gone")),
        (
            "penstock.model.errors.UserError: first\n\nDuring...\npenstock.model.errors.RetryableError: last\n",
            RetryableError("last"),
        ),
        (
            "Traceback...\npenstock.model.errors.BadRecordError: operator 'm' could not process [1]: Traceback (most "
            'recent call last):\n  File "shops.py", line 3, in f\n    g()\n  File "shops.py", line 9, in g\n'
            "ValueError: no\n\n JVM",
            BadRecordError("operator 'm' could not process [1]: ValueError: no (shops.py:9)"),
        ),
    ],
)
def test_what_a_worker_raised_comes_back(text: str, raised: Exception) -> None:
    failure = worker_failure(RuntimeError(text))
    assert type(failure) is type(raised) and str(failure) == str(raised)
    assert str(failure_of(RuntimeError(text))) == str(raised)


def test_what_others_raised_is_not_ours() -> None:
    assert worker_failure(RuntimeError("ValueError: no")) is None
    assert worker_failure(RuntimeError("penstock.model.errors.annotations: no")) is None


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        (f"{CLUSTER}ModuleNotFoundError: No module named 'penstock'", UserError, "workers have no module 'penstock'"),
        (f'{CLUSTER}java.io.IOException: Cannot run program "python3": error=2', UserError, "have no 'python3'"),
        (
            "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9 than that in driver: 3.11, PySpark",
            UserError,
            "workers run Python 3.9, and this is 3.11",
        ),
        ("[Errno 111] Connection refused", RetryableError, "Spark is gone"),
        (
            "[ARITHMETIC_OVERFLOW] long overflow. SQLSTATE: 22003\n== SQL ==\nn + 1",
            FatalError,
            "Spark failed: [ARITHMETIC_OVERFLOW] long overflow. SQLSTATE: 22003",
        ),
        (
            "An error occurred while calling o1.save.\n: org.apache.Job: aborted\n\tat x\nCaused by: java.io.E: full",
            FatalError,
            "Spark failed: java.io.E: full",
        ),
        ("Traceback\n  File\nValueError: 12\n\n JVM", FatalError, "Spark failed: ValueError: 12"),
    ],
)
def test_what_spark_says_becomes_a_sentence(text: str, kind: type[PenstockError], said: str) -> None:
    failure = failure_of(RuntimeError(text))
    assert type(failure) is kind
    assert said in str(failure) and "\n" not in str(failure)
