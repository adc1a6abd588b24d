"""Access to a job's HTTP API: to read without a token from this machine alone, to act with a token always."""

import hmac
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from http import HTTPStatus

from penstock.http_api.answers import ErrorCode
from penstock.runs.run_options import LOOPBACK

_SCHEME = "bearer"


class Scope(IntEnum):
    """The right that a request needs; a token has all that are smaller than its own, too."""

    HEALTH = 0
    READ = 1
    ACT = 2


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of a job by what they allow; None: there is none."""

    read: str | None = field(default=None, repr=False)
    act: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class RequestHeaders:
    """The headers of a request that identify its sender; ``hosts`` are all its ``Host`` headers."""

    hosts: Sequence[str] = ()
    origin: str | None = None
    authorization: str | None = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """The answer to a request that is not allowed."""

    status: HTTPStatus
    code: ErrorCode
    text: str


NO_TOKEN = Refusal(HTTPStatus.UNAUTHORIZED, "no_token", "send the token: Authorization: Bearer TOKEN")
FOREIGN = Refusal(HTTPStatus.FORBIDDEN, "foreign_request", "ask this machine by its own name, and from no page")
WRONG_SCOPE = Refusal(HTTPStatus.FORBIDDEN, "wrong_scope", "this token may read only: send the token for actions")
NO_ACTIONS = Refusal(
    HTTPStatus.FORBIDDEN,
    "no_actions",
    "the job takes no actions: start it with an action_token (--action-token), and send that",
)


@dataclass(frozen=True, slots=True)
class Access:
    """Judges requests to a port. Without a token it refuses what a page of a foreign site could send.

    Such a page may have its name resolved to this machine, but then its name is in the ``Host`` header. It knows no
    token, so with one the name by which the machine was called does not matter.
    """

    port: int
    tokens: Tokens = Tokens()

    def refusal(self, headers: RequestHeaders, needed: Scope) -> Refusal | None:
        """Return why a request is refused that needs a scope; None: it is allowed."""
        if not self._is_from_here(headers) and (self.tokens.read is None or _is_from_foreign_page(headers)):
            return FOREIGN
        if needed is Scope.HEALTH:
            return None
        granted = self._granted(headers.authorization)
        if needed is Scope.READ:
            return None if self.tokens.read is None or granted is not None else NO_TOKEN
        if self.tokens.act is None:
            return NO_ACTIONS if self.tokens.read is None or granted is not None else NO_TOKEN
        if granted is None:
            return NO_TOKEN
        return None if granted is Scope.ACT else WRONG_SCOPE

    def _granted(self, authorization: str | None) -> Scope | None:
        """Return what a token allows; None: it is missing, or none of ours."""
        scheme, _, sent = (authorization or "").partition(" ")
        acts, reads = _is_equal(sent, self.tokens.act), _is_equal(sent, self.tokens.read)
        if scheme.lower() != _SCHEME:
            return None
        if acts:
            return Scope.ACT
        return Scope.READ if reads else None

    def _is_from_here(self, headers: RequestHeaders) -> bool:
        own = {f"{name}:{self.port}" for name in LOOPBACK}
        return len(headers.hosts) == 1 and headers.hosts[0].lower() in own and headers.origin is None


def _is_from_foreign_page(headers: RequestHeaders) -> bool:
    """Return whether a page sends the request that does not come from where it goes to."""
    if headers.origin is None:
        return False
    scheme, _, host = headers.origin.partition("://")
    return scheme not in ("http", "https") or [host.lower()] != [name.lower() for name in headers.hosts]


def _is_equal(sent: str, token: str | None) -> bool:
    """Compare in constant time: how long it takes says nothing of how much was right."""
    if token is None:
        return False
    return hmac.compare_digest(sent.strip().encode("utf-8", "replace"), token.encode())
