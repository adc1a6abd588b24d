"""Compiled kernels are kept by what they were compiled from: for the next process, another home, a read-only one."""

import inspect
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.commands import kernel_compilation as warm
from penstock.commands.kernel_types import UnknownTypeError, parse_signature, signature_text
from penstock.runs import compilation_notice as kernel_news
from penstock.state.kernels import kernel_cache
from penstock.state.kernels.jit import KERNELS, import_kernels
from penstock.state.kernels.kernel_cache import KernelCache, cache_root, delete_unused, kernel_sources
from tests.docs.pages import ROOT

DAY_S = 86_400
PIPELINE = """
import penstock as ps

rows = ps.read_memory([{"item": "vase", "price": 3}, {"item": "vase", "price": 4}])
rows.key_by("item").agg(total=ps.sum_("price")).print(mode="changelog")
ps.run("totals")
from penstock.state.kernels.kernel_cache import KernelCache
print("compiled", KernelCache.compiled)
"""
LOADING = """
from penstock.state.kernels.jit import KERNELS, load_kept_kernels
from penstock.state.kernels.kernel_cache import KernelCache

for _ in load_kept_kernels():
    pass
print(sorted(name for name, kernel in KERNELS.items() if kernel.overloads), KernelCache.compiled)
"""


def run(home: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a home of its own, with standard error piped."""
    known = {name: text for name, text in os.environ.items() if name not in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME")}
    env = {**known, "HOME": str(home), "PYTHONPATH": str(ROOT), "PENSTOCK_QUIET_KERNELS": "", **more}
    ran = subprocess.run([sys.executable, *arguments], cwd=home, env=env, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran


@pytest.mark.slow
@pytest.mark.long(
    "three processes, one compiles a pipeline; test_what_was_warmed_is_compiled_by_nobody compiles two kernels"
)
def test_a_second_process_compiles_nothing_wherever_the_folder_went(tmp_path: Path) -> None:
    home, other = tmp_path / "home", tmp_path / "other"
    home.mkdir()
    (home / "pipeline.py").write_text(PIPELINE)
    first = run(home, "pipeline.py")
    folder = home / ".cache" / "penstock" / "kernels"
    assert first.stderr.count("compiling kernels, which later runs find in " + str(folder)) == 1
    assert "compiled 0" not in first.stdout
    assert [path.stat().st_mode & 0o077 for path in folder.iterdir()] == [0]
    second = run(home, "pipeline.py")
    assert "compiled 0" in second.stdout and "compiling" not in second.stderr

    shutil.copytree(home, other)
    kept = other / ".cache" / "penstock" / "kernels"
    for path in [kept, *kept.rglob("*")]:
        os.utime(path, (0, 0)) if path != kept and path.parent != kept else None
        path.chmod(0o500 if path.is_dir() else 0o400)
    try:
        third = run(other, "pipeline.py")
    finally:
        for path in [kept, *kept.rglob("*")]:
            path.chmod(0o700)
    assert "compiled 0" in third.stdout and "compiling" not in third.stderr


@pytest.mark.slow
def test_what_was_warmed_is_compiled_by_nobody(tmp_path: Path) -> None:
    script = """
from penstock.commands import kernel_compilation as warm
import sys
names = sys.argv[1:]
known = warm.known_forms()
warm.known_forms = lambda: {name: known[name] for name in names}
done = warm.warm()
print(done.forms, done.compiled > 0, done.folder)
"""
    (tmp_path / "some.py").write_text(script)
    names = ["penstock.engine.kernels.accumulate:add_counts", "penstock.state.kernels.decimals:_negated"]
    cache = {"NUMBA_CACHE_DIR": str(tmp_path / "chosen")}
    assert run(tmp_path, "some.py", *names, **cache).stdout.startswith(f"2 True {tmp_path / 'chosen' / 'penstock'}")
    assert run(tmp_path, "some.py", *names, **cache).stdout.startswith("2 False ")
    (tmp_path / "all.py").write_text(LOADING)
    assert run(tmp_path, "all.py", **cache).stdout == f"{names} 0\n"


def test_warm_knows_every_kernel_that_is_called_from_outside() -> None:
    assert len([*import_kernels()]) == len([*kernel_sources()])
    known = warm.known_forms()
    assert set(known) <= set(KERNELS)
    for name, forms in known.items():
        for form in forms:
            types = parse_signature(form)
            assert signature_text(types) == form
            assert len(types) == len(inspect.signature(KERNELS[name].py_func).parameters), name
    # What is left is called by other kernels alone, with constants.
    assert [name for name in KERNELS if name not in known and not name.partition(":")[2].startswith("_")] == []


def test_every_module_that_names_the_compiler_is_part_of_the_digest() -> None:
    naming = re.compile(r"^(?:import numba|from numba|from penstock\.state\.kernels\.jit import jit)", re.MULTILINE)
    files = [path for layer in ("state", "engine") for path in (ROOT / layer).rglob("*.py")]
    naming_files = {str(path.relative_to(ROOT)) for path in files if naming.search(path.read_text(encoding="utf-8"))}
    assert naming_files - {"state/kernels/kernel_cache.py"} <= {name for name, _ in kernel_sources()}


def test_kernels_of_another_text_lie_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    fresh = kernel_cache.kernel_digest.__wrapped__
    digest = fresh()
    assert digest == fresh() == kernel_cache.kernel_digest()
    changed = [(name, text + b"#") for name, text in kernel_sources()]
    monkeypatch.setattr(kernel_cache, "kernel_sources", lambda: iter(changed))
    assert fresh() != digest
    monkeypatch.undo()
    monkeypatch.setattr(kernel_cache.numba, "__version__", "0.0")
    assert fresh() != digest


@pytest.mark.parametrize(
    ("environment", "platform", "folder"),
    [
        ({}, "linux", "/home/me/.cache/penstock/kernels"),
        ({"XDG_CACHE_HOME": "/var/cache"}, "linux", "/var/cache/penstock/kernels"),
        ({"NUMBA_CACHE_DIR": "/opt/k", "XDG_CACHE_HOME": "/var/cache"}, "linux", "/opt/k/penstock"),
        ({}, "darwin", "/home/me/Library/Caches/penstock/kernels"),
    ],
)
def test_where_kernels_are_kept(environment: dict[str, str], platform: str, folder: str) -> None:
    assert cache_root(environment, Path("/home/me"), platform) == Path(folder)


def test_what_nobody_uses_is_deleted(tmp_path: Path) -> None:
    for name, age_days in (("old", 61), ("new", 59)):
        (tmp_path / name / "module").mkdir(parents=True)
        os.utime(tmp_path / name, (1e9 - age_days * DAY_S,) * 2)
    delete_unused(tmp_path, 1e9)
    assert [path.name for path in tmp_path.iterdir()] == ["new"]
    delete_unused(tmp_path / "not there", 1e9)


def test_what_is_said_of_a_folder_that_cannot_be_written_to() -> None:
    assert "set NUMBA_CACHE_DIR" in kernel_news.compiling_text("/x", cached=False)
    assert "later runs find in /x" in kernel_news.compiling_text("/x", cached=True)


def test_it_is_said_once_and_only_when_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(KernelCache, "compiled", 0)
    monkeypatch.setattr(KernelCache, "compiles", None)
    monkeypatch.setenv(kernel_news.QUIET, "1")
    kernel_news.announce_compilation()
    assert KernelCache.compiles is None
    monkeypatch.delenv(kernel_news.QUIET)
    kernel_news.announce_compilation()
    assert KernelCache.compiles is not None
    KernelCache.compiles()
    assert capsys.readouterr().err.startswith("compiling kernels")


@pytest.mark.parametrize("text", ["int7", "array(int64, 1d)", "no.such(int64)", "list"])
def test_texts_that_are_no_types_are_refused(text: str) -> None:
    with pytest.raises(UnknownTypeError):
        parse_signature(text)


def test_the_command_says_what_it_has_done(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from penstock.commands.cli import main

    monkeypatch.setattr(warm, "known_forms", lambda: {"penstock.state.kernels.decimals:_negated": ["uint64; uint64"]})
    with pytest.raises(SystemExit) as end:
        main(["warm", "--json"])
    assert end.value.code == 0
    assert json.loads(capsys.readouterr().out)["forms"] == 1
