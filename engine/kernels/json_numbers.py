"""Finds NaN and infinities in text that claims to be JSON, which pyarrow takes for numbers. Called by `JsonDecoder`."""

import numpy as np

from penstock.state.kernels.jit import jit
from penstock.state.keys.arrays import Bytes

_N, _A, _I, _SMALL_N, _F = np.frombuffer(b"NaInf", np.uint8)
_QUOTE, _MINUS = np.frombuffer(b'"-', np.uint8)
_BLANKS = (ord(" "), ord("\t"), ord("\r"), ord("\n"))
_BEFORE_VALUES = (ord(":"), ord("["), ord(","))


@jit
def may_hold_no_number(text: Bytes) -> bool:
    """Return whether ``NaN`` or ``Inf`` stands where a value may: true wherever it is one, in strings by chance."""
    # Bytes are compared with bytes and nothing branches, so this runs at the speed of memory; few texts go beyond it.
    seen = False
    for i in range(text.size - 3):
        nan = (text[i + 1] == _N) & (text[i + 2] == _A) & (text[i + 3] == _N)
        inf = (text[i + 1] == _I) & (text[i + 2] == _SMALL_N) & (text[i + 3] == _F)
        seen |= (nan | inf) & (text[i] != _QUOTE)
    if not seen:
        return False
    for i in range(1, text.size - 2):
        nan = text[i] == _N and text[i + 1] == _A and text[i + 2] == _N
        inf = text[i] == _I and text[i + 1] == _SMALL_N and text[i + 2] == _F
        if nan or inf:
            before = i - 1
            if text[before] == _MINUS:
                before -= 1
            while before >= 0 and text[before] in _BLANKS:
                before -= 1
            if before >= 0 and text[before] in _BEFORE_VALUES:
                return True
    return False
