"""``penstock warm``: compiles beforehand what jobs would compile at their first run, as when an image is built."""

import importlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from penstock.commands.kernel_types import known_signatures, parse_signature
from penstock.model.errors import UserError
from penstock.state.kernels.jit import KERNELS, import_kernels
from penstock.state.kernels.kernel_cache import KernelCache, is_kept, kernel_folder

SIGNATURES = "kernel_signatures.txt"
"""Kernels, and behind each on lines of their own the types that jobs call it with."""


@dataclass(frozen=True, slots=True)
class CompilationSummary:
    """Result of a compilation: number of known ``forms``, number ``compiled`` just now, and their folder."""

    folder: str
    forms: int
    compiled: int
    seconds: float


def warm(progress: Callable[[int, int], None] | None = None) -> CompilationSummary:
    """Compile every form of every kernel that is not kept yet; ``progress`` hears how many of how many are done.

    Raises:
        UserError: the folder cannot be written to.
    """
    if not is_kept():
        raise UserError(f"{kernel_folder()} cannot be written to: set NUMBA_CACHE_DIR to a folder that can")
    began, before = time.monotonic(), KernelCache.compiled
    signatures = [(name, form) for name, forms in known_forms().items() for form in forms]
    for number, (name, form) in enumerate(signatures, 1):
        module, _, _ = name.partition(":")
        importlib.import_module(module)
        KERNELS[name].compile(parse_signature(form))
        if progress is not None:
            progress(number, len(signatures))
    return CompilationSummary(
        str(kernel_folder()), len(signatures), KernelCache.compiled - before, time.monotonic() - began
    )


def known_forms() -> Mapping[str, list[str]]:
    """Return what jobs call kernels with: the types of their arguments by the kernel's name."""
    text = resources.files("penstock").joinpath(SIGNATURES).read_text(encoding="utf-8")
    return dict(_read(text))


def write_forms(file: Path) -> int:
    """Write the forms that this version's folder holds to a file, added to those it has; return how many there are."""
    forms = {name: set(signatures) for name, signatures in known_forms().items()}
    for _ in import_kernels():
        pass
    for name, kernel in KERNELS.items():
        if texts := known_signatures(kernel._cache.signatures()):
            forms.setdefault(name, set()).update(texts)
    parts = ["\n".join([name, *(f"  {form}" for form in sorted(forms[name]))]) for name in sorted(forms)]
    file.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return sum(map(len, forms.values()))


def _read(text: str) -> Iterator[tuple[str, list[str]]]:
    for part in text.strip().split("\n\n"):
        name, *forms = part.splitlines()
        yield name, [form.strip() for form in forms]
