"""Regular expressions in RE2's syntax: validation, and naming of the group that is extracted.

`functions` checks patterns with it when an expression is typed, the engine's text kernels extract with it.
"""

import pyarrow as pa
import pyarrow.compute as pc

GROUP = "wanted"
"""The name of the only group in a pattern made by `only_group`."""


def complaint(pattern: str) -> str | None:
    """Return the error in a pattern; None for a valid one."""
    try:
        pc.match_substring_regex(pa.array([""]), pattern)
    except pa.ArrowInvalid as error:
        return str(error).removeprefix("Invalid regular expression: ")
    return None


def only_group(pattern: str, group: int) -> str:
    """Return the pattern with one capturing group, named `GROUP`, which is group number ``group`` (0: all).

    Raises:
        ValueError: the pattern has fewer groups.
    """
    pieces: list[str] = []
    groups = 0
    position = 0
    while position < len(pattern):
        end = _token_end(pattern, position)
        token = pattern[position:end]
        if token == "(" or token.startswith(("(?P<", "(?<")):
            groups += 1
            token = f"(?P<{GROUP}>" if groups == group else "(?:"
        pieces.append(token)
        position = end
    if group > groups:
        raise ValueError(f"there is no group {group}")
    text = "".join(pieces)
    return text if group else f"(?P<{GROUP}>{text})"


def _token_end(pattern: str, start: int) -> int:
    """Return the end of the token: a quoted or escaped part, a class, the opening of a group, or one character."""
    if pattern.startswith("\\Q", start):
        end = pattern.find("\\E", start)
        return len(pattern) if end < 0 else end + 2
    if pattern[start] == "\\":
        return min(start + 2, len(pattern))
    if pattern[start] == "[":
        return _class_end(pattern, start)
    if pattern.startswith(("(?P<", "(?<"), start):
        return pattern.index(">", start) + 1
    if pattern.startswith("(?", start):
        return start + 2
    return start + 1


def _class_end(pattern: str, start: int) -> int:
    position = start + 1
    if pattern.startswith("^", position):
        position += 1
    if pattern.startswith("]", position):
        position += 1
    while pattern[position] != "]":
        if pattern.startswith("[:", position):
            position = pattern.index(":]", position) + 2
        elif pattern[position] == "\\":
            position += 2
        else:
            position += 1
    return position + 1
