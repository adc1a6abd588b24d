"""One command line: the same names for the same options in all commands, help for each, exit codes alike."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import commands, penstock, shown

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = commands()

FLAG, CHOICE = "a flag", "a choice"
OPTIONS = {
    "--accept-changed": "OPERATOR",
    "--accept-duplicates": FLAG,
    "--accept-gap": FLAG,
    "--action-log": "FILE",
    "--action-token": "WHERE",
    "--address": "HOST:PORT",
    "--again": FLAG,
    "--all": FLAG,
    "--arrow": "FILE",
    "--at-end": CHOICE,
    "--attached": FLAG,
    "--batch-rows": "R",
    "--checkpoint": "CHECKPOINT",
    "--checkpoint-dir": "DIR",
    "--checkpoint-interval": "TIME",
    "--config": "FILE",
    "--control": CHOICE,
    "--case": "NAME",
    "--cores": "N",
    "--correct": "TOPIC",
    "--dead-letters": "URL",
    "--debug": FLAG,
    "--dir": "DIR",
    "--drain": FLAG,
    "--dry-run": FLAG,
    "--draws": "N",
    "--real": "SCALE",
    "--drop-state": "OPERATOR",
    "--emit-interval": "TIME",
    "--env": "NAME=VALUE",
    "--events": "N",
    "--executor": CHOICE,
    "--failpoints": FLAG,
    "--faults": "F",
    "--fill": "URL",
    "--first-cores": "N",
    "--format": CHOICE,
    "--from": "WHERE",
    "--from-archive": "DIR",
    "--group": "GROUP",
    "--internal": FLAG,
    "--interval": "TIME",
    "--into": "TOPIC",
    "--json": FLAG,
    "--kafka": "HOST:PORT",
    "--kafka-setting": "KEY=VALUE",
    "--kept": "LOG",
    "--kill-head": FLAG,
    "--kills": "N",
    "--limit": "N",
    "--master": "URL",
    "--max-dead-letters": "LIMIT",
    "--max-error": "E",
    "--max-failed-checkpoints": "N",
    "--memory": "SIZE",
    "--metrics-host": "HOST",
    "--metrics-port": "PORT",
    "--metrics-token": "WHERE",
    "--min-accuracy": "SHARE",
    "--name": "NAME",
    "--once": FLAG,
    "--only": CHOICE,
    "--out": "DIR",
    "--parallelism": "P",
    "--parquet": "FILE",
    "--pin": FLAG,
    "--placement": "NAME",
    "--policy": "NAME",
    "--port": "PORT",
    "--priority": "P",
    "--quota": "NAME",
    "--queries": "Q",
    "--query": "QUERY",
    "--reset": FLAG,
    "--restore": "WHAT",
    "--rows": "N",
    "--savepoint": "NAME",
    "--savepoint-on-stop": "NAME",
    "--scale": "NAME",
    "--seed": "N",
    "--seeds": "A",
    "--set": "PARAMETER=VALUE",
    "--shed": "NAME",
    "--since": "N",
    "--sink": "NAME",
    "--source": "SOURCE",
    "--spark-setting": "KEY=VALUE",
    "--spread": FLAG,
    "--start-timeout": "TIME",
    "--state-bytes": "BYTES",
    "--svg": "FILE",
    "--take-over": FLAG,
    "--task-managers": "N",
    "--to": "WHERE",
    "--topic": "TOPIC",
    "--transport": CHOICE,
    "--where": "FIELD=VALUE",
    "--yes": FLAG,
}
"""Every option and the word for its value; where it takes several, for one. Before a line is added here, look whether
the table has a name for what is meant; the page on the command line says what each is."""

SHORT = {"-n": "--limit", "-y": "--yes"}
WITHOUT_JSON = {"dev kafka"}
"""It runs until Ctrl-C, and prints one address."""

FILE, ARGUMENTS = "FILE", "ARGS"
MOST_PARAMETERS = 8
COMMAND = re.compile(r"\bpenstock ((?:dev|dlq|state) )?([a-z]+)\b([^`\n]*)")


def value_of(option: Any) -> str:
    """Return the word for an option's value, as the table above has it."""
    if option.is_flag:
        return FLAG
    if option.metavar is None:
        return CHOICE
    return str(re.split(r",|\.\.|:PARTITIONS", option.metavar)[0])


def options_of(command: Any) -> list[Any]:
    return [item for item in shown(command) if item.param_type_name == "option"]


def arguments_of(command: Any) -> list[Any]:
    return [item for item in shown(command) if item.param_type_name == "argument"]


@pytest.mark.parametrize("name", COMMANDS)
def test_options_have_one_name_and_one_kind_of_value(name: str) -> None:
    for option in options_of(COMMANDS[name]):
        long, *others = option.opts
        assert (long, value_of(option)) == (long, OPTIONS.get(long)), f"penstock {name} {long}"
        assert [SHORT.get(other) for other in others] == [long] * len(others), f"penstock {name} {others}"


def test_every_option_of_the_table_is_one_of_a_command() -> None:
    assert {option.opts[0] for command in COMMANDS.values() for option in options_of(command)} == set(OPTIONS)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_is_there_for_everything_and_is_a_sentence(name: str) -> None:
    command = COMMANDS[name]
    for text in (command.help.split("\n\n")[0], *(item.help for item in shown(command))):
        assert text and text == text.strip() and text.endswith("."), f"penstock {name}: {text!r}"
    for item in arguments_of(command):
        assert item.metavar is not None and item.metavar.isupper(), f"penstock {name}: {item.name}"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_shows_tracebacks_and_prints_json(name: str) -> None:
    named = {option.opts[0]: option.help for option in options_of(COMMANDS[name])}
    assert named["--debug"] == "Show full tracebacks."
    assert named.get("--json") == (None if name in WITHOUT_JSON else "Print JSON.")


def test_pipelines_are_given_alike() -> None:
    """As FILE [ARGS], in this order, and both with the same help."""
    taking = {
        name: arguments_of(command)
        for name, command in COMMANDS.items()
        if any(item.metavar in (FILE, ARGUMENTS) for item in arguments_of(command))
    }
    assert {"run", "explain", "simulate", "chaos", "validate", "replay"} <= set(taking)
    alike = {tuple((item.metavar, item.help, item.required, item.nargs) for item in found) for found in taking.values()}
    assert len(alike) == 1, taking
    assert [part[0] for part in alike.pop()] == [FILE, ARGUMENTS]


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_help_shows_every_text_whole(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Markup would swallow words in square brackets."""
    monkeypatch.setenv("COLUMNS", "400")
    assert penstock(*name.split(), "--help") == 0
    printed = " ".join(capsys.readouterr().out.split())
    command = COMMANDS.get(name)
    if command is not None:
        for item in shown(command):
            assert item.help in printed and (item.opts[0] if item.metavar is None else item.metavar) in printed
        assert all(paragraph in printed for paragraph in command.help.split("\n\n"))
    assert "╭─ Options" in printed


@pytest.mark.parametrize("name", COMMANDS)
def test_wrong_usage_exits_with_2(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert penstock(*name.split(), "--no-such-option") == 2
    assert "--no-such-option" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "FILE", "--checkpoint-interval", "soon"],
        ["run", "FILE", "--metrics-token", "hunter2"],
        ["run", "FILE", "--max-dead-letters", "few"],
        ["run", "FILE", "--dead-letters", "dead"],
        ["run", "FILE", "--at-end", "never"],
        ["chaos", "FILE", "--parallelism", "0"],
        ["chaos", "FILE", "--kill-head"],
        ["simulate", "FILE", "--seeds", "x"],
        ["simulate", "FILE", "--faults", "flood"],
        ["top", "--interval", "1ms"],
        ["status", "ftp://127.0.0.1"],
        ["submit", "FILE", "--env", "STAGE"],
        ["stop"],
        ["stop", "http://me:secret@127.0.0.1:1"],
        ["savepoint", "http://127.0.0.1:1", "friday", "--action-token", "hunter2"],
        ["decide", "FILE", "--set", "period_s"],
        ["dlq", "replay", "t", "--kafka", "127.0.0.1:1", "--where", "stage"],
        ["dlq", "show", "t", "--kafka", "127.0.0.1:1", "--kafka-setting", "linger"],
        ["doctor", "--topic", "t"],
        ["dev", "kafka", "--topic", "orders:many"],
        ["nexmark", "--queries", "q99"],
        ["nexmark", "--events", "none"],
        ["nexmark", "--task-managers", "2"],
        ["papers", "nobody"],
        ["archive", "t", "--kafka", "127.0.0.1:1", "--out", "a", "--spark-setting", "nothing"],
        ["replay", "FILE", "--out", "a", "--spark-setting", "nothing"],
        ["validate", "FILE", "--from", "{"],
    ],
    ids=" ".join,
)
def test_an_impossible_value_on_the_command_line_exits_with_2(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("FILE").write_text("import penstock as ps\nps.Job().run('empty')\n")
    assert penstock(*arguments) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err and "Traceback" not in said.err


def test_an_impossible_option_of_the_file_fails_the_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "pipeline.py"
    file.write_text("import penstock as ps\nps.run('job', paralelism=2)\n")
    assert penstock("run", file) == 1
    assert "parallelism" in capsys.readouterr().err


PUBLIC = {"penstock/dsl/kafka.py": {"read_kafka"}, "penstock/dsl/sinks.py": {"write_kafka"}}
"""What a pipeline is written with has as many parameters as there is to say."""


def test_functions_below_the_commands_take_8_parameters_at_most() -> None:
    """Parameters of a command are its options; what lies below takes them as values that belong together."""
    long = {}
    for path in [*(ROOT / "penstock").glob("*.py"), *(ROOT / "replay").rglob("*.py")]:
        place = str(path.relative_to(ROOT))
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name not in PUBLIC.get(place, ()):
                taken = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                names = [item.arg for item in taken if item.arg not in ("self", "cls")]
                if len(names) > MOST_PARAMETERS and names[0] != "context":
                    long[f"{place}: {node.name}"] = len(names)
    assert long == {}


def written_commands() -> Iterator[tuple[str, str, str]]:
    """Yield (place, command, what follows) of every command line that a document or a file of ours shows."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "penstock" / "project").glob("*.md")]
    folders = ("model", "state", "engine", "replay", "benchmarks", "examples", "scheduler")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    for path in [*pages, *files, *(ROOT / "penstock").glob("*.py")]:
        if path.name in ("CHANGELOG.md",) or path.parent.name == "decisions":
            continue
        for found in COMMAND.finditer(path.read_text(encoding="utf-8").replace("\\\n", " ")):
            name = f"{found[1] or ''}{found[2]}"
            if name in COMMANDS:
                yield str(path.relative_to(ROOT)), name, found[3]


def test_documents_and_messages_name_options_that_there_are() -> None:
    wrong = []
    for place, name, rest in written_commands():
        known = {option for item in COMMANDS[name].params for option in item.opts}
        words = re.split(r"\s", rest.split(" -- ")[0])
        named = [match[0] for word in words if (match := re.match(r"--[a-z][a-z-]*", word))]
        wrong += [f"{place}: penstock {name} {option}" for option in named if option not in known | {"--help"}]
    assert wrong == []
    assert {"run", "validate", "chaos", "nexmark"} <= {name for _, name, _ in written_commands()}


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    import penstock as package

    assert penstock("--version") == 0
    assert capsys.readouterr().out == f"penstock {package.__version__}\n"
