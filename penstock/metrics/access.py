"""Who may ask for a job's metrics: with a token whoever sends it, without one this machine alone."""

import hmac
from collections.abc import Sequence
from dataclasses import dataclass, field
from http import HTTPStatus

from penstock.runs.run_options import LOOPBACK

_SCHEME = "bearer"


@dataclass(frozen=True, slots=True)
class MetricsRequest:
    """What a request says of who asks; ``hosts`` are all its ``Host`` headers."""

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

    def refusal(self, asking: MetricsRequest) -> HTTPStatus | None:
        """Return how a request for metrics is refused; None: it may ask."""
        if self.token is None:
            return self.health_refusal(asking)
        scheme, _, sent = (asking.authorization or "").partition(" ")
        # Compared in constant time: how long it takes says nothing of how much was right.
        right = hmac.compare_digest(sent.strip().encode("utf-8", "replace"), self.token.encode())
        return None if right and scheme.lower() == _SCHEME else HTTPStatus.UNAUTHORIZED

    def health_refusal(self, asking: MetricsRequest) -> HTTPStatus | None:
        """Return how a request for a word on health is refused, which needs no token; None: it may ask."""
        if self.token is not None:
            return None
        own = {f"{name}:{self.port}" for name in LOOPBACK}
        at_home = len(asking.hosts) == 1 and asking.hosts[0].lower() in own and asking.origin is None
        return None if at_home else HTTPStatus.FORBIDDEN
