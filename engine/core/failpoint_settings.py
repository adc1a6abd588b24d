"""Failpoints armed from outside: the variable ``PENSTOCK_FAILPOINT`` makes a real process fail at a named point.

Its value is ``name:nth`` or ``name:nth:action``, several with commas. Read when a job is made ready to run, and by a
task manager when it begins: ``tm-0/name:nth`` is for the task manager of that name, ``tm-*/name:nth`` for every one,
``head/name:nth`` for a head actor, and what has no such beginning for the process that starts the job.
"""

import os
import signal
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path

from penstock.model.errors import OptionError, RetryableError
from penstock.model.failpoint_names import MEANINGS
from penstock.model.failpoints import arm

VARIABLE = "PENSTOCK_FAILPOINT"
ONCE = "PENSTOCK_FAILPOINT_ONCE"
"""A variable that names a directory, if it is set: of `EVERY_MANAGER`, and of head actors, the first fails alone."""
EVERY_MANAGER = "tm-*"
HEAD_ACTOR = "head"
_MANAGER = "tm-"
ACTIONS = ("kill", "raise", "say", "stop")
SAID = "penstock: failpoint "
"""What a line on stderr begins with that tells of a point; its name follows."""


@dataclass(frozen=True, slots=True)
class FailpointSetting:
    """The action at the ``nth`` passing (from 1) of a point.

    ``kill`` ends the process by SIGKILL, having said so; ``raise`` raises a `RetryableError`; ``say`` writes a line to
    stderr, at every later passing too. ``stop`` says so and stops the process by SIGSTOP until somebody continues it.
    ``manager`` is the name of the task manager that is to do so, or `HEAD_ACTOR`; empty: the process that starts the
    job.
    """

    name: str
    nth: int
    action: str = "kill"
    manager: str = ""

    @property
    def point(self) -> str:
        """The name, behind that of the task manager if there is one."""
        return f"{self.manager}/{self.name}" if self.manager else self.name

    def is_of(self, manager: str) -> bool:
        """Return whether it is for a process of this name; empty: for the process that starts the job."""
        return self.manager == manager or (self.manager == EVERY_MANAGER and manager.startswith(_MANAGER))

    def __str__(self) -> str:
        return f"{self.point}:{self.nth}:{self.action}"


def parse_settings(text: str) -> tuple[FailpointSetting, ...]:
    """Read the value of the variable.

    Raises:
        OptionError: it is not of the form, or there is no such point or action.
    """
    return tuple(_parse(item.strip()) for item in text.split(",") if item.strip())


def arm_from(environment: Mapping[str, str], manager: str = "") -> None:
    """Arm the points that the variable names for this process; once per process, so that later jobs count on.

    ``manager`` is the name of the task manager that the process is, or `HEAD_ACTOR`; empty: it is one that starts jobs.

    Raises:
        OptionError: the value is wrong.
    """
    global _armed_with
    text = environment.get(VARIABLE, "")
    if text and text != _armed_with:
        mine = tuple(setting for setting in parse_settings(text) if setting.is_of(manager))
        once = environment.get(ONCE, "")
        arm(ArmedPoints(mine, manager, Path(once) if once else None) if mine else None)
        _armed_with = text


class ArmedPoints:
    """Counts the passings of points, from any thread, and acts."""

    def __init__(self, settings: tuple[FailpointSetting, ...], manager: str = "", once: Path | None = None) -> None:
        """Count from zero; ``manager`` and ``once`` are those of `arm_from` and `ONCE`."""
        self._manager, self._once = manager, once
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
            repeats = setting.action == "say" and passed > setting.nth
            if repeats or (passed == setting.nth and self._is_first(setting)):
                _act(replace(setting, manager=self._manager))

    def _is_first(self, setting: FailpointSetting) -> bool:
        """Return whether no other process has done this before, if one only is to."""
        if self._once is None or setting.manager not in (EVERY_MANAGER, HEAD_ACTOR) or setting.action == "say":
            return True
        try:
            (self._once / setting.name).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True


def _act(setting: FailpointSetting) -> None:
    if setting.action == "raise":
        raise RetryableError(f"failed at the failpoint {setting.name}, as {VARIABLE} asks")
    # One call, so that lines of several threads do not mix; sys.stderr may buffer, and the process may be about to die.
    os.write(2, f"{SAID}{setting.point} {setting.action}\n".encode())
    if setting.action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if setting.action == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)


def _parse(text: str) -> FailpointSetting:
    point, _, rest = text.partition(":")
    manager, _, name = point.rpartition("/")
    nth, _, action = rest.partition(":")
    if name not in MEANINGS:
        close = get_close_matches(name, MEANINGS, 1)
        hint = f"did you mean {close[0]}?" if close else "see penstock failpoints"
        raise OptionError(f"{VARIABLE} names the failpoint {name!r}, which there is not; {hint}")
    if not nth.isdecimal() or int(nth) < 1 or action not in ("", *ACTIONS):
        raise OptionError(f"{VARIABLE} is NAME:NTH or NAME:NTH:ACTION ({', '.join(ACTIONS)}), not {text!r}")
    return FailpointSetting(name, int(nth), action or "kill", manager)


_armed_with = ""
