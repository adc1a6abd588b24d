"""The Ray cluster of a job: the user's own, one at an address, the one that a Ray job is in, or else a local one.

What the user has begun himself is used and left as it is; a local cluster begins and ends with the job.
"""

import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from penstock.engine.executors.ray.worker_home import program_folder
from penstock.model.errors import OptionError, RetryableError, UserError

NAMESPACE = "penstock"
"""The namespace of actors."""

STORE_BYTES = 80 << 20
"""Memory of a local cluster's object store, nearly the least that Ray takes: no row goes there."""

_ADDRESS = "RAY_ADDRESS"
_SUBMISSION_ADDRESS = "RAY_API_SERVER_ADDRESS"
_DEDUPLICATES = "RAY_DEDUP_LOGS"
_JOB_CONFIG = "RAY_JOB_CONFIG_JSON_ENV_VAR"
"""The variable by which Ray hands a submitted job its settings, working directory among them."""
_TOKEN_NOTICE = "ray._private.authentication.authentication_token_setup"

EXCLUDED = (".git", ".venv", "venv", "__pycache__", ".penstock", "node_modules", ".mypy_cache", ".pytest_cache")
"""What of a program's folder does not go to other nodes."""


@contextmanager
def connected(address: str | None, cpus: int, *, with_program: bool = True, only_calls: bool = False) -> Iterator[None]:
    """Be connected to a cluster meanwhile; a local one has so many CPUs.

    ``with_program`` brings the folder of the user's program to the nodes of a cluster that is not local. A process that
    ``only_calls`` actors, and is called by none, may be connected by Ray Client.

    Raises:
        OptionError: there cannot be a cluster at this address, or this process is connected to another one already.
        RetryableError: no cluster answers there.
        UserError: it does not let this process in, or is of another version.
    """
    ray = _import_ray()
    if ray.is_initialized():
        _check_same(address, ray.get_runtime_context().gcs_address)
        yield
        return
    if not only_calls:
        _check_address(address)
    options: dict[str, Any] = {"namespace": NAMESPACE, "logging_level": "WARNING", "log_to_driver": True}
    if address is None and not os.environ.get(_ADDRESS):
        options |= {"address": "local", "num_cpus": cpus, "include_dashboard": False}
        options |= {"object_store_memory": STORE_BYTES}
    else:
        options |= {"address": address} if address else {}
        if with_program:
            options |= _program_environment()
    with _signals_kept():
        try:
            ray.init(**options)
        except (ConnectionError, RuntimeError) as error:
            raise refusal(address or os.environ.get(_ADDRESS), error) from error
        except ray.exceptions.RuntimeEnvSetupError as error:
            if "exceeds the maximum size" not in str(error):
                raise
            raise OptionError(
                f"the program's folder {program_folder()} is too large to go to other nodes, Ray takes 500 MiB: name "
                "what is not to go in a file .rayignore there, or move the program to a folder of its own"
            ) from error
    try:
        yield
    finally:
        ray.shutdown()


def free_cpus(address: str | None) -> int:
    """Return how many whole CPUs a cluster has free, 1 at least.

    Raises:
        OptionError, RetryableError: those of `connected`.
    """
    with connected(address, 1, with_program=False):
        import ray

        return max(1, int(ray.available_resources().get("CPU", 0)))


def has_cluster(address: str | None) -> bool:
    """Return whether there is a cluster to join, so that no local one is begun."""
    return bool(address or os.environ.get(_ADDRESS)) or ("ray" in sys.modules and _import_ray().is_initialized())


def use_token_of_this_machine() -> None:
    """Speak with a cluster that is found on this machine by the token that is kept here, if one is, as `ray.init` does.

    Ray's job submission does not, and is turned away by a cluster that `ray start` has begun with that token. To one
    that the environment names the token is not sent.
    """
    if os.environ.get(_ADDRESS) or os.environ.get(_SUBMISSION_ADDRESS):
        return
    _import_ray()
    # Versions without it use no token unless they are told to.
    with suppress(ImportError):
        from ray._private.authentication import authentication_token_setup

        authentication_token_setup.maybe_enable_token_auth_if_token_available(warn_if_disabled=False)


def _import_ray() -> Any:
    """Return Ray, which prints every line of task managers unless the user wants one of each kind."""
    chosen = _DEDUPLICATES in os.environ
    # Ray reads it while it is imported, and only then.
    os.environ.setdefault(_DEDUPLICATES, "0")
    try:
        import ray
    finally:
        if not chosen:
            del os.environ[_DEDUPLICATES]
    # It says at every start that who speaks with the cluster must have its token.
    logging.getLogger(_TOKEN_NOTICE).setLevel(logging.ERROR)
    return ray


def _check_address(address: str | None) -> None:
    if address is not None and address.startswith("ray://"):
        raise OptionError(
            f"address={address!r} is one of Ray Client, through which task managers cannot reach this process: give "
            "HOST:PORT of the Ray head node, and run this on a node of the cluster"
        )


def _check_same(address: str | None, present: str) -> None:
    _check_address(address)
    if address not in (None, "auto", present):
        raise OptionError(f"address={address!r}, but this process is connected to the Ray cluster at {present!r}")


def _program_environment() -> dict[str, Any]:
    """Return what brings the user's program to other nodes, if it is a folder of its own and no Ray job brings one."""
    folder = program_folder()
    if _JOB_CONFIG in os.environ or folder is None or not folder.is_dir():
        return {}
    return {"runtime_env": {"working_dir": str(folder), "excludes": excluded_files()}}


def excluded_files() -> list[str]:
    """Return patterns of what of a program's folder does not go to other nodes."""
    return [f"**/{name}" for name in EXCLUDED]


@contextmanager
def _signals_kept() -> Iterator[None]:
    """Keep the handler of SIGTERM, which Ray replaces by one that ends this process."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handler = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, handler)


def refusal(where: str | None, error: Exception) -> Exception:
    """Return the error of a cluster that cannot be joined, or of none that can be begun."""
    reasons: list[str] = []
    cause: BaseException | None = error
    while cause is not None:
        reasons.append(f"{type(cause).__name__} {cause}")
        cause = cause.__cause__ or cause.__context__
    if any("uthenticat" in reason for reason in reasons):
        return UserError(
            f"the Ray cluster at {where!r} lets in only who has its token: set "
            "RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH to that of the cluster"
        )
    if where is None or "ersion mismatch" in str(error):
        return UserError(f"Ray cannot begin here: {_first_line(error)}")
    return RetryableError(f"no Ray cluster answers at {where!r}: {_first_line(error)}")


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
