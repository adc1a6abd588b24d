"""The endpoint of a running job's HTTP API; light, for the server is imported only when one is opened."""

import sys
from collections.abc import Callable
from types import TracebackType
from typing import Self

from penstock.engine.core.job_events import JobEvent
from penstock.http_api.access import Tokens
from penstock.http_api.served_job import ServedJob
from penstock.model.errors import OptionError
from penstock.runs.metrics_token import read_token
from penstock.runs.own_token import OwnToken
from penstock.runs.run_options import RunOptions


class Endpoint:
    """No endpoint: nothing is served. `server.ApiEndpoint` is one."""

    url: str | None = None
    """The URL of the metrics; None: they are not served."""

    def show(self, job: ServedJob) -> None:
        """Serve a job, whose methods are called from other threads."""

    def tell(self, event: JobEvent) -> None:
        """Take an event of the job; from any thread."""

    def close(self) -> None:
        """Serve no more."""

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Serve no more."""
        self.close()


def tokens_of(options: RunOptions) -> Tokens:
    """Return the tokens that the options refer to.

    Raises:
        OptionError: one cannot be read, or both are the same.
    """
    read = None if options.metrics_token is None else read_token(options.metrics_token)
    act = None if options.action_token is None else read_token(options.action_token, "action_token")
    if act is not None and act == read:
        raise OptionError("metrics_token and action_token are the same: who may read a job could stop it.")
    return Tokens(read, act)


def open_endpoint(
    options: RunOptions, tokens: Tokens | None = None, warn: Callable[[str], None] | None = None
) -> Endpoint:
    """Return the endpoint that the options ask for; what it shows is said later, so that a taken port stops the start.

    A job whose head is in another process has it there, with the ``tokens`` of the process that started it. Without a
    token for actions the job makes one for its own user; ``warn`` hears if it cannot.

    Raises:
        OptionError: the port cannot be had, or a token cannot be read, or both tokens are the same.
    """
    if options.metrics_port is None or options.has_head_actor:
        return Endpoint()
    tokens = tokens or tokens_of(options)
    own = None if tokens.act is not None else _make_own(warn or _warn)
    from penstock.http_api.server import ApiEndpoint

    try:
        granted = tokens if own is None else Tokens(tokens.read, own.value)
        endpoint = ApiEndpoint(options.metrics_host, options.metrics_port, granted)
    except BaseException:
        if own is not None:
            own.delete()
        raise
    if own is not None:
        own.publish(endpoint.port)
        endpoint.before_close = own.delete
    return endpoint


def _make_own(warn: Callable[[str], None]) -> OwnToken | None:
    try:
        return OwnToken.make()
    except OSError as error:
        warn(
            f"NO ACTIONS: a token for actions cannot be kept ({error}), so the job can be read at its metrics_port and "
            "not stopped there; give it one by action_token, or set XDG_STATE_HOME to a folder of your own"
        )
        return None


def _warn(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
