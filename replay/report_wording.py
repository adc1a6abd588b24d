"""The wording of a validation, and of its times: one for the page and the terminal. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from penstock.replay.validation_result import ComparisonStatus, QueryValidation, Validation, WindowResult


def verdict(validation: Validation) -> str:
    """Return the outcome of a validation as one sentence."""
    compared = [query for query in validation.queries if query.status is not ComparisonStatus.NOT_COMPARED]
    differing = [query for query in compared if query.status is ComparisonStatus.DIFFERS]
    if not compared:
        return "Nothing was compared."
    scope = f"in {len(differing)} of {counted(len(compared), 'query', 'queries')}"
    short = [query for query in compared if query.status is ComparisonStatus.BELOW_MINIMUM]
    estimated = [query for query in compared if query.status is ComparisonStatus.ESTIMATED]
    if short and not differing:
        which = f"{len(short)} of {counted(len(compared), 'query', 'queries')}"
        return f"The stream used fewer rows than it had promised{'' if len(compared) == 1 else f' in {which}'}."
    if estimated and not differing:
        which = f"{len(estimated)} of {counted(len(compared), 'query', 'queries')}"
        scope = "" if len(estimated) == len(compared) else f" in {which}, and the exact answer elsewhere"
        return f"The stream gave estimates as accurate as it had promised{scope}."
    if differing:
        return f"The stream differs from the exact answer{'' if len(compared) == 1 else f' {scope}'}."
    if len(compared) < len(validation.queries):
        which = "the query that was" if len(compared) == 1 else f"the {len(compared):,} queries that were"
        return f"The stream gave the exact answer in {which} compared."
    return "The stream gave the exact answer."


def left_out(validation: Validation) -> list[str]:
    """Return what was not replayed because a log says that it was not kept, as a sentence; none without a log."""
    if validation.kept is None:
        return []
    text = f"{counted(validation.left_out, 'offset')} {'was' if validation.left_out == 1 else 'were'} left out"
    return [f"{text}, as {validation.kept} does not say that the stream has kept them."]


def grades(query: QueryValidation) -> list[str]:
    """Return how good the estimates of a query are, as sentences."""
    if query.grade is None:
        return []
    sentences = []
    for item in query.grade.aggregates:
        parts_of = [f"{counted(item.rows, 'result')} of {item.aggregate!r}"]
        if item.mean_error is not None:
            parts_of.append(f"{percent(item.mean_error)} away on average")
        if item.coverage is not None:
            parts_of.append(f"{percent(item.coverage)} of {counted(item.intervals, 'interval')} hold the exact value")
        if item.bias is not None:
            parts_of.append(f"bias {item.bias:+.2f} standard errors")
        if item.accuracy_error is not None:
            parts_of.append(f"accuracy {percent(item.accuracy_error)} off on average")
        sentences.append(", ".join(parts_of) + ".")
    return [*sentences, *shed(query)]


def shed(query: QueryValidation) -> list[str]:
    """Return what became of results for which rows were shed, as sentences."""
    if query.grade is None:
        return []
    parts = ((query.vanished, "vanished: too few of its rows were kept"), (query.emerged, "emerged from a filter"))
    sentences = [f"{counted(number, 'result')} {what}." for number, what in parts if number]
    if query.too_inaccurate:
        sentences.append(
            f"{counted(query.too_inaccurate, 'window')} used fewer rows than chance allows at the minimum."
        )
    if query.queued:
        sentences.append(f"{counted(query.queued, 'result')} not accurate enough, which --correct replaces.")
    if not query.grade.counted:
        sentences.append("No log of what was kept counts rows, so the true accuracy is not known.")
    return sentences


def noted(query: QueryValidation) -> list[str]:
    """Return what else is to be known of a comparison, as sentences."""
    return [f"{note[0].upper()}{note[1:]}." for note in query.notes]


def corrected(query: QueryValidation) -> str:
    """Return what was published of a query that differs, as a sentence; nothing if that was not asked for."""
    correction = query.correction
    if correction is None:
        return ""
    if correction.why is not None:
        return f"Not corrected: {correction.why.rstrip('.')}."
    others = ""
    if correction.open:
        others += f" {counted(correction.open, 'row')} {_were(correction.open)} not, in windows that are still open."
    if correction.left:
        others += f" {counted(correction.left, 'estimate')} {_were(correction.left)} left, as accurate as is wanted."
    if not correction.rows:
        return f"There was nothing to correct in topic {correction.topic}.{others}"
    return (
        f"{counted(correction.rows, 'row')} {_were(correction.rows)} corrected by "
        f"{counted(correction.messages, 'message')} to topic {correction.topic}.{others}"
    )


def _were(number: int) -> str:
    return "was" if number == 1 else "were"


def context(validation: Validation) -> str:
    """Return what was compared with what, as one sentence."""
    exact = sum(query.rows_exact for query in validation.queries if query.why is None)
    uncompared = [query for query in validation.queries if query.why is not None]
    counts = [source.rows for source in validation.sources if source.rows is not None]
    read = f", recomputed from {counted(sum(counts), 'source row')}" if counts else ""
    queries = counted(len(validation.queries) - len(uncompared), "query", "queries")
    skipped = f" {counted(len(uncompared), 'query was', 'queries were')} not compared." if uncompared else ""
    more = "".join(f" {sentence}" for sentence in left_out(validation))
    return f"{counted(exact, 'exact row')} of {queries}{read}.{skipped}{more}"


def sentence(query: QueryValidation) -> str:
    """Return the outcome of a query as one or two sentences."""
    if query.why is not None:
        return f"Not compared: {query.why.rstrip('.')}."
    if query.status is ComparisonStatus.SAME:
        if not query.rows_exact:
            return "Neither the stream nor the recomputation has a row."
        return f"{'The one row is' if query.rows_exact == 1 else f'All {query.rows_exact:,} rows are'} the same."
    if query.status in (ComparisonStatus.ESTIMATED, ComparisonStatus.BELOW_MINIMUM):
        exact = f"{query.same:,} of {counted(query.rows_exact, 'exact row')} {be(query.same)} the same"
        return f"{exact}; rows were shed for the others, {query.estimated:,} of which {be(query.estimated)} estimated."
    wrong = [
        f"{number:,} {be(number)} {what}"
        for number, what in ((query.missing, "missing"), (query.different, "different"))
        if number
    ]
    parts = [f"Of {counted(query.rows_exact, 'exact row')} {' and '.join(wrong)}"] if wrong else []
    if query.extra:
        parts.append(f"{counted(query.extra, 'stream row')} {be(query.extra)} extra")
    return "; ".join(parts) + "." + _windows_sentence(query)


def _windows_sentence(query: QueryValidation) -> str:
    differing = [window for window in query.windows if window.differs]
    if not differing:
        return ""
    number = windows_that_differ(query)
    total = len(query.windows) + query.windows_left_out
    if total == 1:
        return ""
    text = f" {number} of {total:,} windows {'differs' if number == '1' else 'differ'}"
    first = differing[0]
    return f"{text}, first {window_text(first)}." if first.window_start is not None else f"{text}."


def windows_that_differ(query: QueryValidation) -> str:
    """Return how many windows differ; ``at least`` so many where some that do may not be listed."""
    differing = sum(window.differs for window in query.windows)
    unknown = query.windows_left_out and differing == len(query.windows)
    return f"{'at least ' if unknown else ''}{differing:,}"


def counted(number: int, one: str, many: str | None = None) -> str:
    """Return a number and its noun: ``1 row``, ``1,200 rows``."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def be(number: int) -> str:
    """Return ``is`` or ``are``."""
    return "is" if number == 1 else "are"


def percent(share: float) -> str:
    """Return a share in per cent; one below 1 never reads as 100%, one above 0 never as 0%."""
    text = f"{share * 100:.2f}".rstrip("0").rstrip(".")
    if text == "100" and share < 1:
        return "> 99.99%"
    return "< 0.01%" if text == "0" and share > 0 else f"{text}%"


def figure(value: float) -> str:
    """Return a number of an estimate, short."""
    return f"{value:,.0f}" if value == int(value) else f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.1f}"


def in_utc(moment: datetime) -> datetime:
    """Return a time without zone: in UTC if it had one, else as it is."""
    return moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)


def clock(moment: datetime) -> str:
    """Return the time of day, as fine as it needs to be."""
    fraction = f"{moment.microsecond / 1e6:.6f}"[1:].rstrip("0") if moment.microsecond else ""
    return moment.strftime("%H:%M:%S") + fraction


def window_text(window: WindowResult) -> str:
    """Return the span of a window: ``2026-03-02 10:00:10 to 10:00:20``."""
    if window.window_start is None and window.window_end is None:
        return "no window"
    texts = []
    day = None
    for moment in (window.window_start, window.window_end):
        if moment is None:
            texts.append("open")
            continue
        plain = in_utc(moment)
        texts.append(clock(plain) if plain.date() == day else f"{plain.date()} {clock(plain)}")
        day = plain.date()
    return " to ".join(texts)


def duration_text(seconds: float) -> str:
    """Return a duration in the greatest unit that keeps it whole: ``10 s``, ``5 min``, ``250 ms``."""
    for unit, size in (("d", 86400.0), ("h", 3600.0), ("min", 60.0), ("s", 1.0), ("ms", 0.001)):
        number = seconds / size
        if number >= 1 and abs(number - round(number)) < 1e-6:
            return f"{round(number):,} {unit}"
    return f"{seconds:g} s"


def zone_text(windows: Sequence[WindowResult]) -> str:
    """Return what to say of the zone of times: `` (UTC)`` or nothing."""
    return " (UTC)" if any(window.window_start is not None and window.window_start.tzinfo for window in windows) else ""
