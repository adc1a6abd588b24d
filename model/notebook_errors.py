"""The notebook's view of an error: its sentence and the user's own lines, none of Penstock's."""

from collections.abc import Iterator

from penstock.model.error_origins import error_name, error_text, note_lines, user_frames


class Sentence(BaseException):
    """A mixin of errors whose message says everything (a bug's does not). IPython shows `_render_traceback_`'s result.

    ``%debug`` walks through all frames.
    """

    def _render_traceback_(self) -> list[str]:
        return [f"{error_name(self)}: {error_text(self)}", *_lines(self)]


def _lines(error: BaseException) -> Iterator[str]:
    """Yield the user's lines that led to an error, the innermost first, then its notes and its cause."""
    for frame in user_frames(error):
        yield f"  at {frame.file}:{frame.line}"
        if frame.source:
            yield f"      {frame.source}"
    yield from note_lines(error)
    cause = error.__cause__
    if cause is not None:
        yield f"  caused by {error_name(cause)}: {error_text(cause)}"
        yield from _lines(cause)
