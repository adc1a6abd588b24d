"""The endpoint of a running job's HTTP API; light, for the server is imported only when one is opened."""

from types import TracebackType
from typing import Self

from penstock.engine.core.job_events import JobEvent
from penstock.http_api.access import Tokens
from penstock.http_api.served_job import ServedJob
from penstock.model.errors import OptionError
from penstock.runs.metrics_token import read_token
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


def open_endpoint(options: RunOptions) -> Endpoint:
    """Return the endpoint that the options ask for; what it shows is said later, so that a taken port stops the start.

    A job whose head is in another process has it there.

    Raises:
        OptionError: the port cannot be had, or a token cannot be read, or both tokens are the same.
    """
    if options.metrics_port is None or options.has_head_actor:
        return Endpoint()
    read = None if options.metrics_token is None else read_token(options.metrics_token)
    act = None if options.action_token is None else read_token(options.action_token, "action_token")
    if act is not None and act == read:
        raise OptionError("metrics_token and action_token are the same: who may read a job could stop it.")
    from penstock.http_api.server import ApiEndpoint

    return ApiEndpoint(options.metrics_host, options.metrics_port, Tokens(read, act))
