"""The command line in this process: its exit codes, and all of its commands by name."""

from typing import Any

import pytest
import typer

from penstock.commands.cli import app, main
from penstock.commands.group import InstalledCommand


def penstock(*arguments: object) -> int:
    """Run ``penstock`` with these arguments and return its exit code."""
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    return int(ended.value.code or 0)


def commands() -> dict[str, Any]:
    """Return every command, those of groups by both names, those of entry points loaded."""
    root: Any = typer.main.get_command(app)
    found = {}
    for name in root.list_commands(None):
        command = root.get_command(None, name)
        if isinstance(command, InstalledCommand):
            command = command.load()
        inner = getattr(command, "commands", None)
        if inner is None:
            found[name] = command
        else:
            found |= {f"{name} {part}": command.get_command(None, part) for part in inner}
    return found


def shown(command: Any) -> list[Any]:
    """Return the parameters of a command that its help shows."""
    return [item for item in command.params if not getattr(item, "hidden", False) and item.name != "help"]
