"""Resolution of a path, directory or glob to files when the pipeline is built, and of columns in a file.

Called by the file sources.
"""

import difflib
from collections.abc import Iterable, Sequence
from pathlib import Path

from penstock.model.errors import SchemaError, UserError

_MAGIC = ("*", "?", "[")


def find_files(path: str | Path, suffixes: Sequence[str], what: str) -> tuple[Path, ...]:
    """Return the files of a path in order of name; ``what`` names the format in messages ("Parquet").

    A file is taken whatever its suffix, a glob as it matches (``**`` goes into subfolders), a directory with every
    file below it that ends in one of ``suffixes``. Names that begin with ``.`` or ``_`` are work in progress and
    left out.

    Raises:
        UserError: nothing is there; the message names close matches.
    """
    text = str(path)
    if "://" in text:
        raise UserError(f"{what} path {text!r} is a URL; only local paths are read: copy or mount it first")
    place = Path(path).expanduser()
    if place.is_file():
        return (place,)
    if place.is_dir():
        files = _ready(place, place.rglob("*"))
        chosen = tuple(item for item in files if item.suffix.lower() in suffixes)
        if not chosen:
            raise UserError(
                f"{what} directory {text!r} holds no file that ends in {' or '.join(suffixes)}; "
                f"it has {_listing([item.name for item in files])}"
            )
        return chosen
    if any(sign in text for sign in _MAGIC):
        root, pattern = _fixed_part(place)
        chosen = _ready(root, root.glob(pattern))
        if not chosen:
            raise UserError(f"no file matches the {what} pattern {text!r}{_suggestion(root)}")
        return chosen
    raise UserError(f"{what} path {text!r} does not exist{_suggestion(place)}")


def check_columns(path: Path, present: Sequence[str], wanted: Sequence[str]) -> None:
    """Check that a file has the wanted columns.

    Raises:
        SchemaError: naming the first that it lacks, and close matches.
    """
    for name in wanted:
        if name not in present:
            close = difflib.get_close_matches(name, present, n=3)
            hint = f"did you mean {' or '.join(map(repr, close))}?" if close else f"it has {', '.join(present)}"
            raise SchemaError(f"{str(path)!r} has no column {name!r}; {hint}")


def _fixed_part(place: Path) -> tuple[Path, str]:
    """Split a glob into the folder it starts from and the pattern below it."""
    parts = place.parts
    first = next(index for index, part in enumerate(parts) if any(sign in part for sign in _MAGIC))
    return Path(*parts[:first]), str(Path(*parts[first:]))


def _ready(root: Path, paths: Iterable[Path]) -> tuple[Path, ...]:
    return tuple(
        sorted(
            item
            for item in paths
            if item.is_file() and not any(part[0] in "._" for part in item.relative_to(root).parts)
        )
    )


def _suggestion(place: Path) -> str:
    """Name files with a similar name, or the first folder of the path that is missing."""
    folder = place.parent
    while not folder.is_dir():
        place, folder = folder, folder.parent
    names = [item.name for item in folder.iterdir()]
    close = difflib.get_close_matches(place.name, names, n=3, cutoff=0.6)
    if close:
        return f"; did you mean {' or '.join(repr(str(folder / name)) for name in close)}?"
    return f"; folder {str(folder)!r} has {_listing(names)}"


def _listing(names: Sequence[str]) -> str:
    if not names:
        return "no files"
    shown = ", ".join(sorted(names)[:5])
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more"
