"""The address of a running job: where its HTTP API is, and the token that is sent there."""

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from penstock.model.errors import OptionError

DEFAULT_URL = "http://127.0.0.1:9464"

_METRICS = "/metrics"


@dataclass(frozen=True, slots=True)
class JobAddress:
    """Where a job's HTTP API is; ``path`` stands before that of every operation, as behind a proxy."""

    host: str
    port: int
    path: str = ""
    secure: bool = False
    token: str | None = field(default=None, repr=False)

    def __str__(self) -> str:
        """Return the URL, without the token."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.secure else 'http'}://{host}:{self.port}{self.path}"


def parse_address(url: str, token: str | None = None) -> JobAddress:
    """Return the address that a URL names; that of a job's metrics will do, too.

    Raises:
        OptionError: it is no such URL.
    """
    example = f"the URL of a job is such as {DEFAULT_URL}, not {url!r}"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise OptionError(f"{example}: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise OptionError(example)
    if parts.username is not None or parts.password is not None:
        raise OptionError("the URL of a job has no user in it: the token of a file or of the environment says who asks")
    secure = parts.scheme == "https"
    path = parts.path.rstrip("/").removesuffix(_METRICS)
    return JobAddress(parts.hostname, port or (443 if secure else 80), path, secure, token)
