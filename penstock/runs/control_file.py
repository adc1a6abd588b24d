"""Control of a job in a file of TOML: ``config=`` and ``--config``; the program and the command line win over it.

``[control]`` has the options of `Control`, with parameters by policy, and ``[queries.NAME]`` what the query is promised
that the sink of this name writes.
"""

import difflib
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from penstock.model.control import MODES, OFFERED, SHEDDERS, Control
from penstock.model.errors import OptionError
from penstock.model.policy_parameters import by_policy
from penstock.runs.control_layers import overlaid, said_by

NUMBER, WHOLE, TEXT, TRUTH, SIZE = "a number", "a whole number", "a text", "true or false", "a number or a text"
NAMES, TABLE = "a name or a list of names", "a table"

CONTROL: Mapping[str, str] = {
    "shed": TEXT,
    "mode": TEXT,
    "shed_backlog": TRUTH,
    "period_s": WHOLE,
    "offered": TEXT,
    "shedder": TEXT,
    "scale": NAMES,
    "cores": NUMBER,
    "memory": SIZE,
    "parameters": TABLE,
    "first_cores": NUMBER,
    "quota": TEXT,
    "priority": WHOLE,
    "placement": TEXT,
}
"""What each option of `Control` is in a file."""

QUERY: Mapping[str, str] = {"min_accuracy": NUMBER, "max_error": NUMBER, "max_lag": SIZE, "priority": WHOLE}
"""What a query may be promised in a file, as by ``with_...`` in the program."""

TABLES = ("control", "queries")

_TYPES: Mapping[str, tuple[type, ...]] = {
    NUMBER: (int, float),
    WHOLE: (int,),
    TEXT: (str,),
    TRUTH: (bool,),
    SIZE: (int, float, str),
    NAMES: (str, list),
    TABLE: (dict,),
}
NOTHING: Mapping[str, Any] = MappingProxyType({})

_WORDS = {"mode": MODES, "offered": OFFERED, "shedder": SHEDDERS}


@dataclass(frozen=True, slots=True)
class ControlFile:
    """What a file says: options of `Control`, and what queries are promised, by the names of their sinks."""

    path: str
    control: Mapping[str, Any]
    queries: Mapping[str, Mapping[str, Any]]

    def below(self, program: Control | None, said: Mapping[str, Any] = NOTHING) -> Control | None:
        """Return the control that a program says, and this file beside it; None: neither says any.

        ``said``: what the command line says, which wins over both, so that only all three together need be possible.

        Raises:
            OptionError: together it is impossible, or parameters are not those of the program's policies.
        """
        if not self.control and not said:
            return program
        try:
            control = overlaid(self.control, said_by(program), said)
            if "parameters" in self.control and "scale" not in self.control:
                _refuse_missing(overlaid({**said_by(control), "parameters": self.control["parameters"]}, {}))
        except OptionError as error:
            raise OptionError(f"{self.path}: {error}") from error
        return control


def read_control_file(path: str | Path) -> ControlFile:
    """Read a file.

    Raises:
        OptionError: it cannot be read or is no TOML, or has what there is not; the message names the file, the key and
            the valid ones.
    """
    try:
        read = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise OptionError(f"config: {path} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise OptionError(f"{path} is no TOML: {error}") from error
    _refuse_unknown(path, "at its top", read, TABLES)
    for table in TABLES:
        _check(path, table, "at its top", read.get(table, {}), TABLE)
    control, queries = read.get("control", {}), read.get("queries", {})
    _check_all(path, "[control]", control, CONTROL)
    for query, promises in queries.items():
        _check(path, query, "in [queries]", promises, TABLE)
        _check_all(path, f"[queries.{query}]", promises, QUERY)
    for key, valid in _WORDS.items():
        if key in control and control[key] not in valid:
            raise OptionError(f"{path}: {key} in [control] is {_listed(valid)}, not {control[key]!r}")
    if isinstance(control.get("scale"), list):
        control["scale"] = tuple(control["scale"])
    _check_policies(path, control)
    return ControlFile(str(path), control, queries)


def _check_policies(path: str | Path, control: Mapping[str, Any]) -> None:
    """Refuse policies that there are not, and parameters that those that the file names have not."""
    named = {key: control[key] for key in ("shed", "scale", "placement") if key in control}
    for key, name in named.items():
        try:
            _refuse_missing(Control(**{key: name}, mode="act"))
        except OptionError as error:
            raise OptionError(f"{path}: {key} in [control]: {error}") from error
    try:
        _refuse_missing(_with_parameters(named, control.get("parameters", {})))
    except OptionError as error:
        raise OptionError(f"{path}: parameters in [control]: {error}") from error


def _refuse_missing(control: Control) -> None:
    """Refuse policies and parameters that there are not; without a file no policy need be loaded here."""
    from penstock.engine.control.chosen_policies import check_policies

    check_policies(control)


def _with_parameters(named: Mapping[str, Any], parameters: Mapping[str, Any]) -> Control:
    """Return the control of these policies, and of parameters those of which the file says whose they are."""
    bare = Control(**named, mode="act")
    own = by_policy(parameters, bare.policies)
    kept = parameters if bare.scalers else {name: given for name, given in own.items() if name}
    return Control(**named, mode="act", parameters=kept)


def _check_all(path: str | Path, where: str, table: Mapping[str, Any], kinds: Mapping[str, str]) -> None:
    _refuse_unknown(path, f"in {where}", table, kinds)
    for key, value in table.items():
        _check(path, key, f"in {where}", value, kinds[key])


def _check(path: str | Path, key: str, where: str, value: Any, kind: str) -> None:
    is_truth = isinstance(value, bool)
    fits = isinstance(value, _TYPES[kind]) and is_truth == (kind == TRUTH)
    if not fits or (isinstance(value, list) and not all(isinstance(name, str) for name in value)):
        raise OptionError(f"{path}: {key} {where} is {kind}, not {value!r}")


def _refuse_unknown(path: str | Path, where: str, found: Collection[str], valid: Collection[str]) -> None:
    unknown = next((key for key in found if key not in valid), None)
    if unknown is not None:
        close = difflib.get_close_matches(unknown, valid, 1)
        hint = f"did you mean {close[0]!r}? Valid" if close else "valid"
        raise OptionError(f"{path}: there is no {unknown!r} {where}; {hint} are {', '.join(valid)}")


def _listed(words: Collection[str]) -> str:
    *first, last = map(repr, words)
    return f"{', '.join(first)} or {last}"
