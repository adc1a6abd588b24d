"""Options: one frozen class a noun, units in the names, checks where they are made."""

from dataclasses import dataclass
from typing import Any

from penstock.model.errors import OptionError

ON_ERROR = ("dead_letter", "skip", "fail")
"""What may happen to a bad record."""


@dataclass(frozen=True, slots=True)
class LoopOptions:
    """How the worker loop cuts and bounds its work.

    ``batch_rows``: the most rows in a batch. ``linger_ms``: how long a source may wait to fill one.
    ``channel_bytes``: bytes a channel holds before its producer waits. ``idle_timeout_ms``: how long a source must
    have had nothing before its watermark no longer counts. ``key_groups``: key groups of a stateful operator, kept
    for life. ``state_bytes``: byte budget of keyed state per operator instance (None: unbounded).
    """

    batch_rows: int = 131_072
    linger_ms: int = 10
    channel_bytes: int = 8 << 20
    idle_timeout_ms: int = 30_000
    key_groups: int = 128
    state_bytes: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("batch_rows", "channel_bytes", "idle_timeout_ms", "key_groups"):
            check_count(name, getattr(self, name))
        if self.state_bytes is not None:
            check_count("state_bytes", self.state_bytes)
        check_count("linger_ms", self.linger_ms, least=0)


def check_count(option: str, value: Any, least: int = 1) -> None:
    """Check that an option is a whole number.

    Raises:
        OptionError: it is not, or it is below ``least``.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise OptionError(f"{option} must be a whole number of at least {least}, not {value!r}")


def check_on_error(policy: str, where: str) -> str:
    """Return the policy.

    Raises:
        OptionError: it is none of `ON_ERROR`.
    """
    if policy not in ON_ERROR:
        raise OptionError(f"on_error of {where} must be one of {', '.join(ON_ERROR)}, not {policy!r}")
    return policy
