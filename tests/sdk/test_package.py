"""The wheel: a worker's machine needs httpx and rich, and nothing of the coordinator's."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_NAME = re.compile(r"^[A-Za-z0-9._-]+")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy of what a wheel is built from: two test runs never share setuptools' build folder."""
    source = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        (source / name).write_bytes((ROOT / name).read_bytes())
    for file in (ROOT / "tenure").rglob("*"):
        if file.is_file() and "__pycache__" not in file.parts:
            target = source / file.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(file.read_bytes())
    out = tmp_path_factory.mktemp("wheel")
    command = [
        sys.executable,
        "-m",
        "build",
        "--wheel",
        "--no-isolation",
        "--outdir",
        str(out),
        str(source),
    ]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    [built] = out.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def machine(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the wheel and, linked from here, exactly what its metadata asks for."""
    folder = tmp_path_factory.mktemp("machine")
    venv.EnvBuilder(symlinks=True).create(folder)
    [site] = folder.glob("lib/python*/site-packages")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    [metadata] = site.glob("tenure-*.dist-info")
    for name in _needed(importlib.metadata.Distribution.at(metadata), set()):
        _link(importlib.metadata.distribution(name), site)
    return folder


def _needed(package: importlib.metadata.Distribution, known: set[str]) -> set[str]:
    """The names of everything that pip would install with it."""
    for line in package.requires or ():
        requirement, _, marker = line.partition(";")
        found = _NAME.match(requirement)
        if found is None or "extra ==" in marker or not _holds(marker):
            continue
        name = found[0].lower()
        if name not in known:
            known.add(name)
            _needed(importlib.metadata.distribution(name), known)
    return known


def _holds(marker: str) -> bool:
    """Markers of what we need name Python's version alone."""
    if not marker.strip():
        return True
    wanted = re.search(r"python_version\s*<\s*[\"'](\d+)\.(\d+)", marker)
    return wanted is not None and sys.version_info < (int(wanted[1]), int(wanted[2]))


def _link(package: importlib.metadata.Distribution, site: Path) -> None:
    tops = {Path(file).parts[0] for file in package.files or () if Path(file).parts[0] != ".."}
    for top in tops - {"__pycache__"}:
        target = site / top
        if not target.exists():
            target.symlink_to(Path(str(package.locate_file(top))))


def _run(machine: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(machine / "bin" / "python"), "-I", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_it_asks_for_httpx_and_rich_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        lines = archive.read(name).decode().splitlines()
    wanted = {
        str(_NAME.match(line.removeprefix("Requires-Dist: ")[:60])[0])  # type: ignore[index]
        for line in lines
        if line.startswith("Requires-Dist:") and "extra ==" not in line
    }
    assert wanted == {"httpx", "rich"}


def test_it_holds_the_sdk_alone_and_says_that_it_is_typed(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {name.split("/")[0] for name in names if ".dist-info" not in name} == {"tenure"}
    assert "tenure/py.typed" in names


def test_every_module_of_it_works_where_there_is_no_django(machine: Path, wheel: Path) -> None:
    program = (
        "import importlib, pkgutil, sys, tenure\n"
        "for module in pkgutil.walk_packages(tenure.__path__, 'tenure.'):\n"
        "    if not module.name.endswith('__main__'):\n"
        "        importlib.import_module(module.name)\n"
        "assert importlib.util.find_spec('django') is None\n"
        "assert importlib.util.find_spec('coordinator') is None\n"
        "print(tenure.__version__, tenure.__file__)\n"
    )
    done = _run(machine, "-c", program)
    assert done.returncode == 0, done.stderr
    version, file = done.stdout.split()
    assert Path(file).is_relative_to(machine)
    assert wheel.name.startswith(f"tenure-{version}-")


def test_its_command_line_works_there_and_every_command_has_an_example(machine: Path) -> None:
    for command in _commands():
        done = _run(machine, "-m", "tenure.cli", command, "--help")
        assert done.returncode == 0, done.stderr
        assert f"example: tenure {command}" in done.stdout


def _commands() -> Iterator[str]:
    from tenure.cli.commands import COMMANDS

    yield from (command.name for command in COMMANDS)
