"""Numbers of bytes as people write them: ``16GB``, ``512MiB``."""

import re

from penstock.model.errors import OptionError

UNITS = {"": 1, "B": 1}
UNITS |= {f"{letter}B": 1000**power for power, letter in enumerate("KMGT", 1)}
UNITS |= {f"{letter}iB": 1024**power for power, letter in enumerate("KMGT", 1)}


def to_bytes(value: int | str, option: str) -> int:
    """Return a number of bytes, above 0.

    Raises:
        OptionError: it is none; the message names the option.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", str(value))
    if isinstance(value, bool) or match is None or match[2] not in UNITS or not float(match[1]) > 0:
        raise OptionError(f"{option} is a number of bytes such as '16GB' or '512MiB', not {value!r}")
    return int(float(match[1]) * UNITS[match[2]])
