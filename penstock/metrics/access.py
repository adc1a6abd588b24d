"""Access to a job's metrics: with a token for whoever sends it, without one for this machine alone."""

import hmac
from collections.abc import Sequence
from dataclasses import dataclass, field
from http import HTTPStatus

from penstock.runs.run_options import LOOPBACK

_SCHEME = "bearer"


@dataclass(frozen=True, slots=True)
class MetricsRequest:
    """The headers of a request that identify its sender; ``hosts`` are all its ``Host`` headers."""

    hosts: Sequence[str] = ()
    origin: str | None = None
    authorization: str | None = None


@dataclass(frozen=True, slots=True)
class Access:
    """Judges requests to a port. Without a token it refuses what a page of a foreign site could send.

    Such a page may have its name resolved to this machine, but then its name is in the ``Host`` header. It knows no
    token, so with one the name by which the machine was called does not matter.
    """

    port: int
    token: str | None = field(default=None, repr=False)

    def refusal(self, request: MetricsRequest) -> HTTPStatus | None:
        """Return the status that refuses a request for metrics; None: it is allowed."""
        if self.token is None:
            return self.health_refusal(request)
        scheme, _, sent = (request.authorization or "").partition(" ")
        # Compared in constant time: how long it takes says nothing of how much was right.
        right = hmac.compare_digest(sent.strip().encode("utf-8", "replace"), self.token.encode())
        return None if right and scheme.lower() == _SCHEME else HTTPStatus.UNAUTHORIZED

    def health_refusal(self, request: MetricsRequest) -> HTTPStatus | None:
        """Return the status that refuses a request for health, which needs no token; None: it is allowed."""
        if self.token is not None:
            return None
        own = {f"{name}:{self.port}" for name in LOOPBACK}
        at_home = len(request.hosts) == 1 and request.hosts[0].lower() in own and request.origin is None
        return None if at_home else HTTPStatus.FORBIDDEN
