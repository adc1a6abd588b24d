"""``python run_page.py [--write] PAGE...``: run the snippets of pages, each page in a temporary directory of its own.

A Python block with ``import penstock as ps`` begins a program of its own; others go on from the one before.
Prints a JSON object, from page to what went wrong (empty: nothing); with ``--write`` the pages get the outputs that
were printed. Errors name lines of the page, which a page shows as FILE:LINE. All pages run in one process, for most of
the time goes into starting one.
"""

import contextlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
import traceback
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import penstock.dsl.job
from penstock.dsl.pictures import Picture
from tests.docs.pages import KINDS, ROOT, Block, blocks, content

PROGRAM = "import penstock as ps"
COMMANDS = {"penstock": ("-m", "penstock"), "python": (), "pytest": ("-m", "pytest")}

# On a fresh clone kernels are compiled first, which may take longer than a reader would wait.
assert Picture.preview.__kwdefaults__ is not None
Picture.preview.__kwdefaults__["timeout"] = "10m"


class Page:
    """Runs blocks in one directory; programs share nothing but its files."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.folder = Path.cwd()
        self.names: dict[str, Any] = {}

    def run(self, block: Block) -> str:
        """Return what the block printed."""
        if block.file is not None:
            file = Path(block.file)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content(block), encoding="utf-8")
            return ""
        return self._python(block) if block.kind == "python" else self._console(block.text)

    def _python(self, block: Block) -> str:
        if PROGRAM in block.text:
            self.names = {"__name__": "__main__"}
            penstock.dsl.job._default_job = penstock.dsl.job.Job()
        code = compile("\n" * (block.line - 1) + block.text, str(self.path), "exec", dont_inherit=True)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, self.names)
        return re.sub(rf"{re.escape(str(self.path))}:\d+", "FILE:LINE", printed.getvalue())

    def _console(self, text: str) -> str:
        printed = []
        for line in text.splitlines():
            name, *arguments = shlex.split(line, comments=True) or [""]
            if name == "cd":
                self.folder = self.folder / arguments[0]
            elif name in COMMANDS:
                command = [sys.executable, *COMMANDS[name], *arguments]
                environment = {**os.environ, "PYTHONPATH": str(ROOT)}
                ran = subprocess.run(
                    command, cwd=self.folder, env=environment, capture_output=True, text=True, check=False
                )
                if ran.returncode:
                    raise RuntimeError(f"{line} exited with {ran.returncode}\n{ran.stdout}{ran.stderr}")
                printed.append(ran.stdout)
        return "".join(printed)


def main(arguments: list[str]) -> None:
    """Run the pages."""
    write = "--write" in arguments
    wrong = {}
    for path in [Path(item).resolve() for item in arguments if item != "--write"]:
        with TemporaryDirectory() as folder, contextlib.chdir(folder):
            wrong[str(path)] = run_page(path, write)
    print(json.dumps(wrong))
    sys.stdout.flush()
    # Threads of a page that failed must not keep the process.
    os._exit(0)


def run_page(path: Path, write: bool) -> str:
    """Run a page in the current directory and return what went wrong."""
    text = path.read_text(encoding="utf-8")
    page = Page(path)
    wrong = []
    for block in blocks(text):
        if block.kind not in KINDS and block.file is None:
            continue
        try:
            printed = page.run(block)
        except Exception:
            wrong.append(f"{path}:{block.line} failed\n{traceback.format_exc()}")
            break
        if block.output is None or _lines(block.output) == _lines(printed):
            continue
        if write:
            old = f"```text\n{block.output}```"
            at = text.index(old, text.index(block.text))
            lines = "\n".join(_lines(printed))
            text = f"{text[:at]}```text\n{lines}\n```{text[at + len(old) :]}"
        else:
            wrong.append(f"{path}:{block.line} prints\n{printed}\nand not\n{block.output}")
    if write:
        path.write_text(text, encoding="utf-8")
    return "\n".join(wrong)


def _lines(text: str) -> list[str]:
    """Return the lines without what nobody sees: spaces at their ends, empty lines around them."""
    lines = [line.rstrip() for line in text.splitlines()]
    seen = [at for at, line in enumerate(lines) if line]
    return lines[seen[0] : seen[-1] + 1] if seen else []


if __name__ == "__main__":
    main(sys.argv[1:])
