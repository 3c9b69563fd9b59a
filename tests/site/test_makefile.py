"""`make` on a machine that lacks something says what, and how to get it; it never leaves half an environment."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parent.parent.parent
TOOLS = ("sh", "make", "test", "echo", "id", "cat")


def make(folder: Path, *words: str, programs: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run make in a copy of the project's frame, where only a few tools and these programs are on the PATH."""
    shutil.copy(CHECKOUT / "Makefile", folder)
    shutil.copytree(CHECKOUT / "requirements", folder / "requirements")
    tools = folder / "bin"
    tools.mkdir()
    for name in set(TOOLS) - set(
        programs
    ):  # never both: writing to a link would write to the machine's own tool
        found = shutil.which(name)
        if found:
            (tools / name).symlink_to(found)
    for name, script in programs.items():
        with (tools / name).open("x") as file:  # "x" follows no link
            file.write(f"#!/bin/sh\n{script}\n")
        (tools / name).chmod(0o755)
    make_program = shutil.which("make")
    assert make_program is not None
    return subprocess.run(
        [make_program, *words],
        cwd=folder,
        env={"PATH": str(tools), "HOME": str(folder)},
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize("target", ["run", "test", "check"])
def test_without_a_recent_python_it_says_which_one_is_needed(tmp_path: Path, target: str) -> None:
    done = make(tmp_path, target, programs={"python3": "exit 1"})
    assert done.returncode != 0
    assert "Python 3.11 or newer is needed" in done.stderr
    assert "make PYTHON=" in done.stderr
    assert not (tmp_path / ".venv").exists()


def test_a_python_without_venv_is_told_with_the_package_that_has_it(tmp_path: Path) -> None:
    old_enough = 'case "$*" in *ensurepip*) exit 1;; *) exit 0;; esac'
    done = make(tmp_path, "run", programs={"python3": old_enough})
    assert done.returncode != 0
    assert "apt-get install python3-venv" in done.stderr


def test_a_missing_browser_is_told_to_whoever_may_not_install_one(tmp_path: Path) -> None:
    done = make(tmp_path, "browser", programs={"python3": "exit 0", "id": "echo 1000"})
    assert done.returncode != 0
    assert "need chromium" in done.stderr
    assert "apt-get install chromium" in done.stderr


def test_root_gets_the_browser_installed(tmp_path: Path) -> None:
    programs = {"id": "echo 0", "apt-get": f'echo "$@" >> {tmp_path}/asked', "python3": "exit 0"}
    done = make(tmp_path, "browser", programs=programs)
    assert done.returncode == 0, done.stderr
    assert "install -y -qq --no-install-recommends chromium" in (tmp_path / "asked").read_text()


def test_a_missing_model_checker_is_told_to_whoever_may_not_install_one(tmp_path: Path) -> None:
    done = make(tmp_path, "spin", programs={"python3": "exit 0", "id": "echo 1000"})
    assert done.returncode != 0
    assert "apt-get install spin gcc" in done.stderr


def test_root_gets_the_model_checker_installed(tmp_path: Path) -> None:
    programs = {"id": "echo 0", "apt-get": f'echo "$@" >> {tmp_path}/asked', "python3": "exit 0"}
    done = make(tmp_path, "spin", programs=programs)
    assert done.returncode == 0, done.stderr
    assert "--no-install-recommends spin gcc libc6-dev" in (tmp_path / "asked").read_text()


def test_ci_is_exactly_check_and_test() -> None:
    script = CHECKOUT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    calls = [
        line.split()[1] for line in script.read_text().splitlines() if line.startswith("make ")
    ]
    assert calls == ["check", "test"]
