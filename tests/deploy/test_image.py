"""The steps of the image, carried out in folders of their own where there may be no Docker, and what they leave."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = ROOT / "deploy" / "ray" / "Dockerfile"

INSTALL_S = 1_200

PROGRAM = """
import penstock as ps
rows = ps.read_nexmark("bid", ps.NexmarkConfig(events=5_000)).key_by("channel").agg(n=ps.count())
rows.write_json("out", mode="changelog")
ps.run("small")
"""


def stages() -> list[str]:
    """Return the text of each stage, its long lines joined."""
    text = re.sub(r"^#.*\n", "", DOCKERFILE.read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    return re.split(r"^FROM ", text, flags=re.MULTILINE)[1:]


def steps(stage: str, word: str) -> list[str]:
    """Return what follows an instruction, each time that it comes."""
    return re.findall(rf"^{word} (.*)$", stage, flags=re.MULTILINE)


def test_the_image_runs_as_a_user_and_has_what_was_built() -> None:
    build, image = stages()
    assert build.splitlines()[0].partition(" AS ")[0] == image.splitlines()[0]
    assert steps(image, "USER") == ["penstock"]
    copied = [line.split()[1:] for line in steps(image, "COPY")]
    assert copied == [["/opt/penstock", "/opt/penstock"], ["/opt/kernels", "/opt/kernels"]]
    assert all(any(folder in line for line in steps(build, "RUN")) for folder, _ in copied)
    assert "--constraint requirements.lock" in build


@pytest.mark.long("installs everything, and compiles all kernels; test_manifests.py has the image's place in the rest")
def test_the_steps_make_an_environment_that_runs_a_pipeline_and_compiles_nothing(tmp_path: Path) -> None:
    source, opt = tmp_path / "src", tmp_path / "opt"
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, source / name, follow_symlinks=False)
    opt.mkdir()
    inherited = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    for step in steps(stages()[0], "RUN"):
        # What pip has kept for others serves as well as what the index would send once more.
        here = step.replace("/opt", str(opt)).replace("python3 ", f"{sys.executable} ").replace("--no-cache-dir ", "")
        ran = subprocess.run(
            here, shell=True, cwd=source, env=inherited, capture_output=True, text=True, timeout=INSTALL_S, check=False
        )
        assert ran.returncode == 0, f"{here}\n{ran.stdout[-2_000:]}{ran.stderr[-2_000:]}"
    shutil.rmtree(source)
    (tmp_path / "program.py").write_text(PROGRAM)
    scripts = opt / "penstock" / "bin"
    environment = {**inherited, "NUMBA_CACHE_DIR": str(opt / "kernels"), "HOME": str(tmp_path)}
    command = [str(scripts / "penstock"), "run", "program.py"]
    ran = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=100, check=True
    )
    assert "compiling" not in ran.stderr
    version = subprocess.run([str(scripts / "ray"), "--version"], capture_output=True, text=True, check=True).stdout
    locked = re.search(r"^ray==(\S+)$", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    assert locked is not None and version.strip().endswith(locked[1])
