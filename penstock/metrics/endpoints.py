"""The endpoint of a running job's metrics; light, for the server is imported only when one is opened."""

from collections.abc import Callable
from types import TracebackType
from typing import Self

from penstock.engine.core.job_events import JobEvent
from penstock.engine.jobs.metrics import JobMetrics
from penstock.runs.metrics_token import read_token
from penstock.runs.run_options import RunOptions


class Endpoint:
    """No endpoint: nothing is served. `metrics_server.MetricsEndpoint` is one."""

    url: str | None = None
    """The URL of the metrics; None: they are not served."""

    def show(self, read: Callable[[], JobMetrics]) -> None:
        """Serve the metrics that ``read`` returns; it is called from other threads."""

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

    Raises:
        OptionError: the port cannot be had, or the token cannot be read.
    """
    if options.metrics_port is None:
        return Endpoint()
    from penstock.metrics.server import MetricsEndpoint

    token = None if options.metrics_token is None else read_token(options.metrics_token)
    return MetricsEndpoint(options.metrics_host, options.metrics_port, token)
