"""The bounds of records in text whose quoted values may hold line breaks. Called by `quoted_records`.

A value is quoted if it begins with a quotation mark; two of them inside stand for one. A value that goes on after its
line has to end there, before a delimiter or a line break: otherwise its first line is a record of its own, as is every
line whose value does not end within the bound.
"""

import numpy as np
from numpy.typing import NDArray

from penstock.state.kernels.jit import jit
from penstock.state.keys.arrays import Bytes, Ints, Mask

CLOSED, OPEN, MALFORMED = 0, 1, 2
UNCLOSED, BARE_RETURN = 1, 2

_QUOTE, _NEWLINE, _RETURN = 0x22, 0x0A, 0x0D
_NO_CHAIN, _GOES_ON, _BROKEN, _AT_END, _DONE = 0, 1, 2, 3, 4


@jit
def ends_value(text: Bytes, at: int, delimiter: int) -> bool:
    """Return whether a quoted value may end before ``at``; what is behind the text counts as a line break."""
    if at >= text.size or text[at] == delimiter or text[at] == _NEWLINE:
        return True
    return text[at] == _RETURN and (at + 1 == text.size or text[at + 1] == _NEWLINE)


@jit
def _scan_line(text: Bytes, at: int, inside: bool, delimiter: int) -> tuple[int, int]:
    """Return where the next line begins and how this one ends, given whether it begins inside a quoted value."""
    carried = inside
    fresh = not inside
    while at < text.size:
        byte = text[at]
        if inside:
            if byte == _NEWLINE:
                return at + 1, OPEN
            if byte == _QUOTE:
                if at + 1 < text.size and text[at + 1] == _QUOTE:
                    at += 1
                elif carried and not ends_value(text, at + 1, delimiter):
                    return at, MALFORMED
                else:
                    inside = carried = fresh = False
        elif byte == _NEWLINE:
            return at + 1, CLOSED
        elif byte == delimiter:
            fresh = True
        elif fresh:
            fresh = False
            inside = byte == _QUOTE
        at += 1
    return at, OPEN if inside else CLOSED


@jit
def find_records(
    text: Bytes,
    delimiter: int,
    bound: int,
    final: bool,
    starts: Ints,
    ends: Ints,
    unclosed: Mask,
) -> tuple[int, int, int]:
    """Find the records of text that begins with one, and note their ranges with line breaks; blank lines are none.

    Return how many there are, where the first begins that may go on behind the text (its size if none does, or if the
    text is ``final``), and how many hold line breaks. The arrays have room for as many as there are lines; records of
    several lines have ``bound`` bytes at the most.
    """
    count, broken, at = 0, 0, 0
    # The lines behind an open one, read as the inside of its value. An open one among them goes on the same way, so
    # none is read twice, however many marks are not closed.
    chain, chain_at, chain_end = _NO_CHAIN, -1, 0
    while at < text.size:
        end, state = _scan_line(text, at, False, delimiter)
        if text[end - 1] != _NEWLINE and not final:
            return count, at, broken
        unclosed[count] = state == OPEN
        if state == OPEN:
            if end > chain_at:
                chain, chain_at = _GOES_ON, end
            while chain == _GOES_ON and chain_at - at <= bound:
                chain_end, state = _scan_line(text, chain_at, True, delimiter)
                if state == MALFORMED:
                    chain = _BROKEN
                elif chain_end == chain_at or text[chain_end - 1] != _NEWLINE:
                    chain = (_DONE if state == CLOSED else _BROKEN) if final else _AT_END
                elif state == OPEN:
                    chain_at = chain_end
                else:
                    chain = _DONE
            if chain == _AT_END and text.size - at <= bound:
                return count, at, broken
            if chain == _DONE and chain_end - at <= bound:
                end = chain_end
                unclosed[count] = False
                broken += 1
        elif is_blank(text, at, end):
            at = end
            continue
        starts[count], ends[count] = at, end
        count += 1
        at = end
    return count, at, broken


@jit
def is_blank(text: Bytes, at: int, end: int) -> bool:
    """Return whether a line has nothing but its line break and carriage returns."""
    while at < end and (text[at] == _NEWLINE or text[at] == _RETURN):
        at += 1
    return at == end


@jit
def last_certain_line(text: Bytes, upto: int, delimiter: int, reaches: bool) -> int:
    """Return the last line start in (0, upto] that no quoted value can go over, whatever stands before; -1 if unknown.

    The text ``reaches`` so far beyond ``upto`` that no value from before it does, or to the end of the file.
    """
    certain = reaches
    at = text.size - 1
    while at >= 0:
        if text[at] == _NEWLINE and at + 1 <= upto and certain:
            return at + 1
        if text[at] == _QUOTE:
            last = at
            while at > 0 and text[at - 1] == _QUOTE:
                at -= 1
            if (last - at) % 2 == 0:
                # The first quotation mark behind a line start that ends a value, if that begins inside one.
                certain = not ends_value(text, last + 1, delimiter)
        at -= 1
    return -1


@jit
def flaws(text: Bytes, starts: Ints, delimiter: int) -> NDArray[np.int8]:
    """Return of each record `UNCLOSED`, `BARE_RETURN` if one stands outside quotes, or 0; each ends in a line break."""
    kinds = np.zeros(starts.size, np.int8)
    for i in range(starts.size):
        end = (starts[i + 1] if i + 1 < starts.size else text.size) - 1
        inside, fresh = False, True
        at = starts[i]
        while at < end:
            byte = text[at]
            if inside:
                if byte == _QUOTE:
                    if at + 1 < end and text[at + 1] == _QUOTE:
                        at += 1
                    else:
                        inside = False
            elif byte == _RETURN:
                kinds[i] = BARE_RETURN
            elif byte == delimiter:
                fresh = True
            elif fresh:
                fresh = False
                inside = byte == _QUOTE
            at += 1
        if inside:
            kinds[i] = UNCLOSED
    return kinds
