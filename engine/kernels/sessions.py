"""Kernels of session windows: assign rows to sessions in arrival order, link them into the table, find the over-due.

The open sessions of a key form a list from newest to oldest; they never overlap and never touch (more than one gap
lies between them). Slots are numbers of a table's rows; NONE ends a list. Sessions that a batch creates have no slot
yet: the v-th has the provisional number ``base + v``, above every slot.
"""

from typing import NamedTuple

import numpy as np

from penstock.state.kernels.jit import jit
from penstock.state.keys.arrays import Ints

Number = int | np.int64

NONE = -1
"""No session."""

NEW_FIRST, NEW_LAST, NEW_OLDER, NEW_NEWER, NEW_OWNER, NEW_ROW = range(6)
"""Rows of the array that describes the sessions a batch creates; NEW_ROW is the row that began the session."""


class SessionLinks(NamedTuple):
    """The columns of both tables: ``newest`` of that of keys, the others, all of one length, of that of sessions.

    ``newest`` is a key's newest session plus one (a fresh cell is zero: no session). ``owner`` is the slot of the key
    in its table; of a session merged away it is -1 - (the one it went to).
    """

    newest: Ints
    first: Ints
    last: Ints
    older: Ints
    newer: Ints
    owner: Ints


@jit
def _get(column: Ints, created: Ints, field: int, session: Number) -> np.int64:
    base = len(column)
    value: np.int64 = column[session] if session < base else created[field, session - base]
    return value


@jit
def _set(column: Ints, created: Ints, field: int, session: Number, value: Number) -> None:
    base = len(column)
    if session < base:
        column[session] = value
    else:
        created[field, session - base] = value


@jit
def assign_sessions(
    owners: Ints,
    times_us: Ints,
    gap_us: int,
    late_before_us: int,
    links: SessionLinks,
    created: Ints,
    session_of_row: Ints,
    merged: Ints,
) -> tuple[int, int, int]:
    """Find every row's session and return (sessions created, sessions merged away, late rows).

    ``owners`` are the rows' slots in the table of keys. ``created`` has six rows (NEW_...) and a column per row of the
    batch. A row that joins no session and lies before ``late_before_us`` is late: NONE. ``merged`` receives the
    sessions merged away that had a slot.
    """
    newest, first, last, older, newer, owner = links
    base = len(first)
    news = 0
    merges = 0
    late = 0
    for row in range(len(owners)):
        key = owners[row]
        time = times_us[row]
        session = newest[key] - 1
        if session >= base:
            # Most rows go on where the newest session of their key stands; the rest is for those that do not.
            at = session - base
            if created[NEW_FIRST, at] <= time <= created[NEW_LAST, at] + gap_us:
                created[NEW_LAST, at] = max(created[NEW_LAST, at], time)
                session_of_row[row] = session
                continue
        elif session != NONE and first[session] <= time <= last[session] + gap_us:
            last[session] = max(last[session], time)
            session_of_row[row] = session
            continue
        after = NONE
        while session != NONE and time < _get(first, created, NEW_FIRST, session) - gap_us:
            after = session
            session = _get(older, created, NEW_OLDER, session)
        if session != NONE and time <= _get(last, created, NEW_LAST, session) + gap_us:
            if time > _get(last, created, NEW_LAST, session):
                _set(last, created, NEW_LAST, session, time)
            elif time < _get(first, created, NEW_FIRST, session):
                _set(first, created, NEW_FIRST, session, time)
                before = _get(older, created, NEW_OLDER, session)
                if before != NONE and time <= _get(last, created, NEW_LAST, before) + gap_us:
                    kept, absorbed = (before, session) if session >= base else (session, before)
                    _set(first, created, NEW_FIRST, kept, _get(first, created, NEW_FIRST, before))
                    _set(last, created, NEW_LAST, kept, _get(last, created, NEW_LAST, session))
                    beyond = _get(older, created, NEW_OLDER, before)
                    _set(older, created, NEW_OLDER, kept, beyond)
                    _set(newer, created, NEW_NEWER, kept, after)
                    if beyond != NONE:
                        _set(newer, created, NEW_NEWER, beyond, kept)
                    if after != NONE:
                        _set(older, created, NEW_OLDER, after, kept)
                    else:
                        newest[key] = kept + 1
                    _set(owner, created, NEW_OWNER, absorbed, -1 - kept)
                    if absorbed < base:
                        merged[merges] = absorbed
                        merges += 1
                    session = kept
            session_of_row[row] = session
        elif time < late_before_us:
            session_of_row[row] = NONE
            late += 1
        else:
            fresh = base + news
            created[NEW_FIRST, news] = time
            created[NEW_LAST, news] = time
            created[NEW_OLDER, news] = session
            created[NEW_NEWER, news] = after
            created[NEW_OWNER, news] = key
            created[NEW_ROW, news] = row
            news += 1
            if session != NONE:
                _set(newer, created, NEW_NEWER, session, fresh)
            if after != NONE:
                _set(older, created, NEW_OLDER, after, fresh)
            else:
                newest[key] = fresh + 1
            session_of_row[row] = fresh
    return news, merges, late


@jit
def survivors(created: Ints, news: int, rows: Ints) -> int:
    """Write the beginning rows of the created sessions that were not merged away, in order; return how many."""
    count = 0
    for index in range(news):
        if created[NEW_OWNER, index] >= 0:
            rows[count] = created[NEW_ROW, index]
            count += 1
    return count


@jit
def link_sessions(
    base: int,
    created: Ints,
    news: int,
    slots: Ints,
    links: SessionLinks,
    slot_of_new: Ints,
) -> None:
    """Give the surviving created sessions their ``slots`` (in order) and put these in place of provisional numbers.

    ``slot_of_new`` receives the slot of every created session, NONE for those merged away.
    """
    newest, first, last, older, newer, owner = links
    count = 0
    for index in range(news):
        slot_of_new[index] = NONE
        if created[NEW_OWNER, index] >= 0:
            slot_of_new[index] = slots[count]
            count += 1
    for index in range(news):
        slot = slot_of_new[index]
        if slot == NONE:
            continue
        before = created[NEW_OLDER, index]
        after = created[NEW_NEWER, index]
        first[slot] = created[NEW_FIRST, index]
        last[slot] = created[NEW_LAST, index]
        owner[slot] = created[NEW_OWNER, index]
        if before >= base:
            before = slot_of_new[before - base]
        elif before != NONE:
            newer[before] = slot
        if after >= base:
            after = slot_of_new[after - base]
        elif after != NONE:
            older[after] = slot
        older[slot] = before
        newer[slot] = after
        if after == NONE:
            newest[created[NEW_OWNER, index]] = slot + 1


@jit
def settle_rows(
    base: int,
    created: Ints,
    owner: Ints,
    slot_of_new: Ints,
    sessions: Ints,
) -> None:
    """Replace, in place, sessions merged away by those they went to, and provisional numbers by slots."""
    for row in range(len(sessions)):
        session = sessions[row]
        if session == NONE:
            continue
        while True:
            state = owner[session] if session < base else created[NEW_OWNER, session - base]
            if state >= 0:
                break
            session = -1 - state
        sessions[row] = session if session < base else slot_of_new[session - base]


@jit
def unlink_sessions(
    slots: Ints,
    links: SessionLinks,
    emptied: Ints,
) -> int:
    """Take sessions out of their keys' lists; write the keys left without any and return how many."""
    newest, _, _, older, newer, owner = links
    count = 0
    for index in range(len(slots)):
        slot = slots[index]
        before = older[slot]
        after = newer[slot]
        if before != NONE:
            newer[before] = after
        if after != NONE:
            older[after] = before
        else:
            newest[owner[slot]] = before + 1
            if before == NONE:
                emptied[count] = owner[slot]
                count += 1
    return count


@jit
def split_due(
    slots: Ints,
    last: Ints,
    due_before_us: int,
    near_before_us: int,
    due: Ints,
    near: Ints,
) -> tuple[int, int]:
    """Sort sessions by their last row: before ``due_before_us`` into due, before ``near_before_us`` into near.

    Returns how many went where; the rest is left out.
    """
    dues = 0
    nears = 0
    for index in range(len(slots)):
        slot = slots[index]
        time = last[slot]
        if time < due_before_us:
            due[dues] = slot
            dues += 1
        elif time < near_before_us:
            near[nears] = slot
            nears += 1
    return dues, nears
