"""What `pip wheel` makes of a checkout: all that an installation needs, and none of what only a checkout does."""

import ast
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path, PurePosixPath

import pytest

from tests.house.test_layout import LAYERS, ONLY_IN_A_CHECKOUT, ROOT

BUILD = "import sys; from setuptools.build_meta import build_wheel; print(build_wheel(sys.argv[1]))"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    copy = tmp_path_factory.mktemp("checkout")
    for name in (*LAYERS, "penstock"):
        shutil.copytree(ROOT / name, copy / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("LICENSE", "README.md", "pyproject.toml", "setup.cfg"):
        shutil.copy(ROOT / name, copy / name)
    wheels = tmp_path_factory.mktemp("wheels")
    command = [sys.executable, "-W", "ignore", "-c", BUILD, str(wheels)]
    built = subprocess.run(command, cwd=copy, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    return next(wheels.glob("*.whl"))


def modules(wheel: Path) -> dict[str, str]:
    """Return the text of every module by its name."""
    with zipfile.ZipFile(wheel) as archive:
        paths = [PurePosixPath(name) for name in archive.namelist() if name.endswith(".py")]
        texts = {".".join(path.with_suffix("").parts): archive.read(str(path)).decode() for path in paths}
    return {name.removesuffix(".__init__"): text for name, text in texts.items()}


def is_left_out(module: str) -> bool:
    return any(module == name or module.startswith(f"{name}.") for name in ONLY_IN_A_CHECKOUT)


def test_the_wheel_has_every_module_but_those_of_a_checkout(wheel: Path) -> None:
    paths = [(layer, path.relative_to(ROOT / layer)) for layer in LAYERS for path in (ROOT / layer).rglob("*.py")]
    paths += [("", path.relative_to(ROOT / "penstock")) for path in (ROOT / "penstock").rglob("*.py")
              if not any(part in LAYERS for part in path.relative_to(ROOT / "penstock").parts)]  # fmt: skip
    tree = {
        ".".join(filter(None, ("penstock", layer, *path.with_suffix("").parts))).removesuffix(".__init__")
        for layer, path in paths
    }
    assert set(modules(wheel)) == {name for name in tree if not is_left_out(name)}
    for command in ("penstock.benchmarks.nexmark.command", "penstock.chaos.trials", "penstock.chaos.simulation"):
        assert command in modules(wheel)


def test_nothing_in_the_wheel_imports_what_is_left_out(wheel: Path) -> None:
    wrong = [
        f"{module} imports {imported}"
        for module, text in modules(wheel).items()
        for node in ast.walk(ast.parse(text))
        for imported in (
            [f"{node.module}.{item.name}" for item in node.names]
            if isinstance(node, ast.ImportFrom)
            else [item.name for item in node.names]
            if isinstance(node, ast.Import)
            else []
        )
        if is_left_out(imported)
    ]
    assert wrong == []


def test_data_files_go_with_their_modules(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    for name in ("py.typed", "dev/kafka_jars.lock", "kernel_signatures.txt", "project/README.md"):
        assert f"penstock/{name}" in names
    assert not [name for name in names if name.startswith(("penstock/benchmarks/results", "tests/"))]
