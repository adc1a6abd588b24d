"""Failpoints armed from outside: the variable ``PENSTOCK_FAILPOINT`` makes a real process fail at a named point.

Its value is ``name:nth`` or ``name:nth:action``, several with commas. Read when a job is made ready to run.
"""

import os
import signal
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from penstock.model.errors import OptionError, RetryableError
from penstock.model.failpoint_names import MEANINGS
from penstock.model.failpoints import arm

VARIABLE = "PENSTOCK_FAILPOINT"
ACTIONS = ("kill", "raise", "say", "stop")
SAID = "penstock: failpoint "
"""What a line on stderr begins with that tells of a point; its name follows."""


@dataclass(frozen=True, slots=True)
class FailpointSetting:
    """The action at the ``nth`` passing (from 1) of a point.

    ``kill`` ends the process by SIGKILL, having said so; ``raise`` raises a `RetryableError`; ``say`` writes a line to
    stderr, at every later passing too. ``stop`` says so and stops the process by SIGSTOP until somebody continues it.
    """

    name: str
    nth: int
    action: str = "kill"

    def __str__(self) -> str:
        return f"{self.name}:{self.nth}:{self.action}"


def parse_settings(text: str) -> tuple[FailpointSetting, ...]:
    """Read the value of the variable.

    Raises:
        OptionError: it is not of the form, or there is no such point or action.
    """
    return tuple(_parse(item.strip()) for item in text.split(",") if item.strip())


def arm_from(environment: Mapping[str, str]) -> None:
    """Arm the points that the variable names, if it is set; once per process, so that later jobs count on.

    Raises:
        OptionError: the value is wrong.
    """
    global _armed_with
    text = environment.get(VARIABLE, "")
    if text and text != _armed_with:
        arm(ArmedPoints(parse_settings(text)))
        _armed_with = text


class ArmedPoints:
    """Counts the passings of points, from any thread, and acts."""

    def __init__(self, settings: tuple[FailpointSetting, ...]) -> None:
        """Count from zero."""
        self._settings: dict[str, list[FailpointSetting]] = {}
        for setting in settings:
            self._settings.setdefault(setting.name, []).append(setting)
        self._passed = dict.fromkeys(self._settings, 0)
        self._counting = threading.Lock()

    def __call__(self, name: str) -> None:
        """A point is passed.

        Raises:
            RetryableError: the setting says so.
        """
        if name not in self._passed:
            return
        with self._counting:
            self._passed[name] += 1
            passed = self._passed[name]
        for setting in self._settings[name]:
            if passed == setting.nth or (setting.action == "say" and passed > setting.nth):
                _act(setting)


def _act(setting: FailpointSetting) -> None:
    if setting.action == "raise":
        raise RetryableError(f"failed at the failpoint {setting.name}, as {VARIABLE} asks")
    # One call, so that lines of several threads do not mix; sys.stderr may buffer, and the process may be about to die.
    os.write(2, f"{SAID}{setting.name} {setting.action}\n".encode())
    if setting.action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if setting.action == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)


def _parse(text: str) -> FailpointSetting:
    name, _, rest = text.partition(":")
    nth, _, action = rest.partition(":")
    if name not in MEANINGS:
        close = get_close_matches(name, MEANINGS, 1)
        hint = f"did you mean {close[0]}?" if close else "see penstock failpoints"
        raise OptionError(f"{VARIABLE} names the failpoint {name!r}, which there is not; {hint}")
    if not nth.isdecimal() or int(nth) < 1 or action not in ("", *ACTIONS):
        raise OptionError(f"{VARIABLE} is NAME:NTH or NAME:NTH:ACTION ({', '.join(ACTIONS)}), not {text!r}")
    return FailpointSetting(name, int(nth), action or "kill")


_armed_with = ""
