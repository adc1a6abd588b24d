"""Regular expressions of RE2 as Java's, which Spark has: what both write alike but mean differently is written out.

`spark_functions` calls it; the pattern is valid in RE2, which `model.functions` has checked.
"""

import re

import pyarrow as pa
import pyarrow.compute as pc

UNIX_LINES = "(?d)"
"""The flag by which only a line feed ends a line, as in RE2; every translated pattern begins with it."""

_WORD = "[0-9A-Za-z_]"
_BOUNDARY = f"(?-i:(?<={_WORD})(?!{_WORD})|(?<!{_WORD})(?={_WORD}))"
_ASSERTIONS = {"A": "\\A", "z": "\\z", "b": _BOUNDARY}
_CLASSES = {
    "d": "[0-9]",
    "D": "[^0-9]",
    "s": "[\\t\\n\\f\\r ]",
    "S": "[^\\t\\n\\f\\r ]",
    "w": _WORD,
    "W": "[^0-9A-Za-z_]",
}
_CONTROLS = {"a": 7, "f": 12, "t": 9, "n": 10, "r": 13, "v": 11}
_POSIX = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": "\\x00-\\x7F",
    "blank": "\\t ",
    "cntrl": "\\x00-\\x1F\\x7F",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": "!-/:-@\\[-`{-~",
    "space": "\\t\\n\\x0B\\f\\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
_REPEAT = re.compile(r"\{[0-9]+(,[0-9]*)?\}")
_OPENING = re.compile(r"\(\?(P?<[^>]*>|([a-zA-Z]*)(-[a-zA-Z]*)?([:)]))")
_OCTAL = re.compile(r"[0-7]{1,3}")
_HEX = re.compile(r"x(?:\{([0-9A-Fa-f]+)\}|([0-9A-Fa-f]{2}))")


class ForeignPatternError(Exception):
    """A pattern that Java has no counterpart for; the text says why."""


def to_java(pattern: str) -> str:
    """Return the pattern of Java's that matches the same texts, with the same groups by number.

    Raises:
        ForeignPatternError: there is none, or none that is sure.
    """
    return UNIX_LINES + _Translation(pattern).run()


class _Translation:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._out: list[str] = []
        self._lines = False
        # Of every open group: whether lines were asked for outside it, and where its inside begins.
        self._groups: list[tuple[bool, int]] = []

    def run(self) -> str:
        while self._at < len(self._pattern):
            self._step()
        return "".join(self._out)

    def _step(self) -> None:
        letter = self._pattern[self._at]
        self._at += 1
        if letter == "\\":
            self._escape()
        elif letter == "[":
            self._out.append(self._bracket())
        elif letter == "(":
            self._open()
        elif letter == ")":
            self._close()
        elif letter == "^":
            self._out.append("(?:\\A|(?<=\\n))" if self._lines else "\\A")
        elif letter == "$":
            self._out.append("(?=\\n|\\z)" if self._lines else "\\z")
        elif letter == "{":
            self._brace()
        else:
            self._out.append(_literal(letter) if letter in "]}" else letter)

    def _open(self) -> None:
        opening = _OPENING.match(self._pattern, self._at - 1)
        if opening is None or opening[1].endswith(">"):
            self._at = self._at if opening is None else opening.end()
            self._groups.append((self._lines, self._at))
            self._out.append("(")
            return
        self._at = opening.end()
        wanted, unwanted = opening[2], (opening[3] or "")[1:]
        if opening[4] == ")" and self._pattern.startswith(("*", "+", "?", "{"), self._at):
            raise ForeignPatternError("it repeats what stands before flags")
        if "U" in wanted + unwanted:
            raise ForeignPatternError("(?U) has no counterpart")
        if "i" in wanted and not self._pattern.isascii():
            raise ForeignPatternError("letters beyond ASCII in any case depend on the version of Unicode")
        if opening[4] == ":":
            self._groups.append((self._lines, self._at))
        self._lines = (self._lines or "m" in wanted) and "m" not in unwanted
        on = "".join({"i": "iu", "s": "s"}.get(flag, "") for flag in dict.fromkeys(wanted))
        off = "".join(flag for flag in dict.fromkeys(unwanted) if flag in "is")
        flags = on + (f"-{off}" if off else "")
        self._out.append(f"(?{flags}:" if opening[4] == ":" else f"(?{flags})" if flags else "")

    def _close(self) -> None:
        self._lines, begin = self._groups.pop()
        inside = self._pattern[begin : self._at - 1]
        repeat = _REPEAT.match(self._pattern, self._at)
        if self._pattern.startswith(("*", "+"), self._at) or (repeat and repeat[0].endswith(",}")):
            raise ForeignPatternError(
                "it repeats a group without end, for which Java may need stack and time without end"
            )
        if repeat and pc.match_substring_regex(pa.array([""]), f"^(?:{inside})$")[0].as_py():
            raise ForeignPatternError("it repeats a group that may match nothing, which engines do differently")
        self._out.append(")")

    def _brace(self) -> None:
        repeat = _REPEAT.match(self._pattern, self._at - 1)
        if repeat is None:
            self._out.append("\\{")
            return
        self._at = repeat.end()
        self._out.append(repeat[0])

    def _escape(self) -> None:
        letter = self._pattern[self._at]
        if letter == "Q":
            end = self._pattern.find("\\E", self._at)
            end = len(self._pattern) if end < 0 else end
            self._out += map(_literal, self._pattern[self._at + 1 : end])
            self._at = end + 2
        elif letter == "E":
            self._at += 1
        elif letter == "B":
            raise ForeignPatternError("\\B of RE2 looks at bytes, so that it matches inside letters beyond ASCII")
        elif letter in _ASSERTIONS:
            self._at += 1
            self._out.append(_ASSERTIONS[letter])
        else:
            self._out.append(self._atom())

    def _atom(self) -> str:
        """Return what an escape, inside a class or not, is in Java: a class or an escaped character."""
        letter = self._pattern[self._at]
        if letter in _CLASSES:
            self._at += 1
            return _CLASSES[letter]
        if letter in _CONTROLS:
            self._at += 1
            return f"\\x{_CONTROLS[letter]:02X}"
        if letter in "pP":
            raise ForeignPatternError("\\p{...} depends on the version of Unicode")
        for form, base in ((_HEX, 16), (_OCTAL, 8)):
            number = form.match(self._pattern, self._at)
            if number is not None:
                self._at = number.end()
                digits = next(digits for digits in (*number.groups(), number[0]) if digits)
                return f"\\x{{{int(digits, base):X}}}"
        if letter.isalnum():
            raise ForeignPatternError(f"\\{letter} has no counterpart")
        self._at += 1
        return _literal(letter)

    def _bracket(self) -> str:
        """Return a class; RE2 takes a bracket that comes first, and most marks, as they stand."""
        out = "["
        if self._pattern.startswith("^", self._at):
            out += "^"
            self._at += 1
        first = True
        while first or self._pattern[self._at] != "]":
            first = False
            out += self._member()
        self._at += 1
        return out + "]"

    def _member(self) -> str:
        if self._pattern.startswith("[:", self._at):
            end = self._pattern.find(":]", self._at)
            name = self._pattern[self._at + 2 : end]
            if end >= 0 and name.removeprefix("^") in _POSIX:
                self._at = end + 2
                negated = "^" if name.startswith("^") else ""
                return f"[{negated}{_POSIX[name.removeprefix('^')]}]"
        letter = self._pattern[self._at]
        self._at += 1
        if letter == "\\":
            return self._atom()
        if letter == "-":
            # Between two members it makes a range; first or last it stands for itself.
            before = self._pattern[self._at - 2]
            alone = before in "[^" or self._pattern[self._at] == "]"
            return "\\-" if alone else "-"
        return _literal(letter)


def _literal(letter: str) -> str:
    """Return one character that means itself, in a class too."""
    if letter.isascii() and not letter.isalnum() and letter != "_":
        return f"\\x{ord(letter):02X}"
    return letter
