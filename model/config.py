"""Options: one frozen class a noun, units in the names, checks where they are made."""

from dataclasses import dataclass

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

    batch_rows: int = 32_768
    linger_ms: int = 10
    channel_bytes: int = 8 << 20
    idle_timeout_ms: int = 30_000
    key_groups: int = 128
    state_bytes: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("batch_rows", "channel_bytes", "idle_timeout_ms", "key_groups"):
            if getattr(self, name) <= 0:
                raise OptionError(f"{name} must be above zero, got {getattr(self, name)}")
        if self.linger_ms < 0:
            raise OptionError(f"linger_ms must not be negative, got {self.linger_ms}")


def check_on_error(policy: str, where: str) -> str:
    """Return the policy.

    Raises:
        OptionError: it is none of `ON_ERROR`.
    """
    if policy not in ON_ERROR:
        raise OptionError(f"on_error of {where} must be one of {', '.join(ON_ERROR)}, not {policy!r}")
    return policy
