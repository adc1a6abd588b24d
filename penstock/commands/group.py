"""Groups of commands: how their help looks, and the commands that installed packages add, loaded when they are called.

Imports nothing heavy: ``penstock --help`` reads the first sentences of added commands without importing them.
"""

import ast
import importlib.util
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

from penstock.commands.exit_codes import NotInstalledError, errors_as_exit_codes
from penstock.model.installation import origin

ENTRY_POINTS = "penstock.commands"
"""The entry points of further commands: each names a function with Typer's parameters, or a `typer.Typer`."""

OURS = "penstock."
"""Package of our own commands' modules."""

MARKUP: Final = "rich"


class CommandGroup(TyperGroup):
    """A group whose help fills the lines of the terminal, however docstrings are wrapped."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command, its help a line a paragraph."""
        command = super().get_command(ctx, cmd_name)
        if command is not None and command.help:
            command.help = unwrapped(command.help)
        return command


class RootGroup(CommandGroup):
    """Our own commands, then those of entry points; ours win where names are the same."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return all names, ours first."""
        self._add_installed()
        return super().list_commands(ctx)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command; installed packages are looked at only if it is none of ours."""
        if cmd_name not in self.commands:
            self._add_installed()
        return super().get_command(ctx, cmd_name)

    def _add_installed(self) -> None:
        for entry in sorted(metadata.entry_points(group=ENTRY_POINTS), key=lambda entry: entry.name):
            if entry.name not in self.commands:
                self.commands[entry.name] = InstalledCommand(entry)


class InstalledCommand(TyperCommand):
    """A command of an entry point, which is not imported before it is called or completed."""

    def __init__(self, entry: metadata.EntryPoint) -> None:
        super().__init__(entry.name, help=first_paragraph(entry), rich_markup_mode=MARKUP)
        self._entry = entry

    def make_context(self, info_name: Any, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Load the command, and let it read its arguments."""
        if extra.get("resilient_parsing"):
            try:
                command = self.load()
            except Exception:
                # A shell asks for completions: a message would stand between the words that the user types.
                return super().make_context(info_name, args, parent=parent, **extra)
        else:
            with errors_as_exit_codes("--debug" in args or (parent is not None and bool(parent.obj))):
                command = self.load()
        return command.make_context(info_name, args, parent=parent, **extra)

    def load(self) -> Any:
        """Import the command.

        Raises:
            NotInstalledError: its module is missing.
        """
        entry = self._entry
        try:
            target = entry.load()
        except ModuleNotFoundError as error:
            if not f"{entry.module}.".startswith(f"{error.name}."):
                raise
            raise NotInstalledError(_missing(entry)) from error
        if not isinstance(target, typer.Typer):
            function, target = target, typer.Typer(add_completion=False, rich_markup_mode=MARKUP)
            target.command(entry.name)(function)
        command = typer.main.get_command(target)
        command.help = unwrapped(command.help or "")
        return command


def command_group(cls: type[CommandGroup] = CommandGroup, **settings: Any) -> typer.Typer:
    """Make a group of commands: without arguments it shows its help, and exceptions are left to `exit_codes`."""
    return typer.Typer(
        cls=cls, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=MARKUP, **settings
    )


def unwrapped(text: str) -> str:
    """Return a docstring with each paragraph on one line."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.strip().split("\n\n"))


def first_paragraph(entry: metadata.EntryPoint) -> str:
    """Return the first paragraph of what an entry point names, or of its module, read without importing either."""
    root, *rest = entry.module.split(".")
    spec = importlib.util.find_spec(root)
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        path = Path(folder, *rest)
        for file in (path.with_suffix(".py"), path / "__init__.py"):
            if file.is_file():
                module = ast.parse(file.read_bytes())
                functions = (node for node in module.body if isinstance(node, ast.FunctionDef))
                function = next((node for node in functions if node.name == entry.attr), None)
                text = ast.get_docstring(function or module) or ""
                return unwrapped(text.split("\n\n")[0])
    return "Not part of this installation." if entry.module.startswith(OURS) else ""


def _missing(entry: metadata.EntryPoint) -> str:
    """Say what to do for a command whose module is missing."""
    if not entry.module.startswith(OURS):
        package = entry.dist.name if entry.dist is not None else entry.module.partition(".")[0]
        return (
            f"the command {entry.name!r} of the package {package!r} needs its module {entry.module}, which is not "
            f"there: install {package} anew, or uninstall it"
        )
    where = origin()
    source = f" (from {where.url})" if where is not None else ""
    return (
        f"penstock {entry.name} is not part of this installation{source}: it runs in a checkout of Penstock's source "
        f"code, after make test or pip install -e '.[bench]' there"
    )
