"""Libraries that only some formats need: imported when a format is chosen, and named when they are missing."""

from importlib import import_module
from types import ModuleType

from penstock.model.errors import OptionError
from penstock.model.installation import extra_install_command


def needed(module: str, extra: str, purpose: str) -> ModuleType:
    """Return a module that the extra ``extra`` of Penstock brings.

    Raises:
        OptionError: it is not installed.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise OptionError(f"{purpose} needs more libraries ({error}): {extra_install_command(extra)}") from None
