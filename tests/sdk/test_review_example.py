"""What the example's analysis finds in a folder; always the same for the same files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from examples.review import python_code, text
from examples.review.handlers import analyse_file, take_inventory
from examples.review.listing import list_files, read_text
from examples.review.merging import cycles, findings
from examples.review.plan import nodes
from examples.review.report import make_report

SHARED = "\n".join(f"total_{number} = compute(value, {number}) + offset" for number in range(15))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    files = {
        "app/__init__.py": "",
        "app/a.py": f'"""A."""\nfrom app import b\n\n{SHARED}\n',
        "app/b.py": f"from app import a\n\n{SHARED}\n",
        "app/broken.py": "def f(:\n",
        "app/risky.py": (
            "def f(items=[]):\n    try:\n        return eval(items)\n    except:\n        pass\n"
        ),
        "notes.md": "# Notes\n",
        "vendor/lib.py": "x = 1\n",
        ".hidden/x.py": "x = 1\n",
        "venv2/pyvenv.cfg": "home = /usr\n",
        "venv2/x.py": "x = 1\n",
    }
    for name, content in files.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\x00\x01")
    (tmp_path / "link.py").symlink_to("/etc/hostname")
    return tmp_path


def _analyses(folder: Path) -> dict[str, Any]:
    paths = list_files(folder, limit=100).paths
    return {path: analyse_file(folder, path)["facts"] for path in paths}


def test_only_text_that_is_the_projects_own_is_listed(folder: Path) -> None:
    listing = list_files(folder, limit=100)
    assert (
        listing.paths
        == (
            "app/__init__.py",
            "app/a.py",
            "app/b.py",
            "app/broken.py",
            "app/risky.py",
            "notes.md",
        )[1:]
    )  # an empty file says nothing
    assert list_files(folder, limit=2).left_out == 3


def test_a_path_that_leads_out_of_the_folder_is_refused(folder: Path) -> None:
    with pytest.raises(ValueError, match="leads out"):
        read_text(folder / "app", "../notes.md")


def test_the_report_names_what_is_wrong_and_where(folder: Path) -> None:
    told = [f"{one.where} {one.what}" for one in findings(_analyses(folder))]
    assert told[0].startswith("app/broken.py is not valid Python: line 1")
    everything = "\n".join(told)
    assert "app/risky.py:4 bare `except:`" in everything
    assert "app/risky.py:1 f() shares one mutable default" in everything
    assert "app/risky.py:3 eval() runs" in everything
    assert "app.a imports itself in a circle: app.a → app.b → app.a" in everything
    assert "the same lines stand in app/b.py" in everything


def test_the_same_files_give_the_same_report(folder: Path) -> None:
    analyses = _analyses(folder)
    shuffled = dict(sorted(analyses.items(), reverse=True))
    assert make_report(analyses, root="r", left_out=0) == make_report(
        dict(sorted(shuffled.items())), root="r", left_out=0
    )


def test_a_file_that_has_gone_is_a_fact_and_no_failure(folder: Path) -> None:
    assert analyse_file(folder, "app/none.py") == {
        "path": "app/none.py",
        "gone": "No such file or directory",
    }


def test_an_inventory_changes_with_any_byte(folder: Path) -> None:
    paths = list(list_files(folder, limit=100).paths)
    before = take_inventory(folder, paths)
    (folder / "notes.md").write_text("# Notes!\n")
    after = take_inventory(folder, paths)
    assert before["files"] == after["files"] == 5
    assert before["digest"] != after["digest"]


def test_ways_through_a_function_are_counted_without_those_of_inner_ones() -> None:
    facts = python_code.study(
        "def f(a, b):\n"
        "    if a and b:\n"
        "        for x in a:\n"
        "            print(x)\n"
        "    def inner(c):\n"
        "        return 1 if c else 2\n"
        "    return inner\n",
        "m.py",
    )
    found = {item["name"]: (item["complexity"], item["depth"]) for item in facts["functions"]}
    assert found == {"f": (4, 2), "f.inner": (2, 0)}


def test_imports_that_only_type_checkers_or_calls_see_make_no_circle() -> None:
    facts = python_code.study(
        "from typing import TYPE_CHECKING\n"
        "from . import near\n"
        "if TYPE_CHECKING:\n"
        "    import types_only\n"
        "def late():\n"
        "    import at_call\n",
        "pkg/m.py",
    )
    assert facts["imports"] == ["pkg.near", "typing.TYPE_CHECKING"]


def test_a_copy_is_found_wherever_it_starts_and_however_it_is_indented() -> None:
    lines = [f"value_{number} = first(second, {number})" for number in range(20)]
    here = {name for name, _ in text.fingerprints(["intro = 1", *lines])}
    there = {
        name
        for name, _ in text.fingerprints(["a = 1", "b = 2", *("    " + line for line in lines)])
    }
    assert here & there


def test_one_circle_is_told_for_each_knot_of_imports() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}, "e": {"f"}, "f": {"e"}}
    assert cycles(graph) == [["a", "b", "c"], ["e", "f"]]


def test_the_report_waits_for_all_and_what_goes_outside_for_the_report(folder: Path) -> None:
    plan = nodes(list_files(folder, limit=100))
    assert plan[0]["node_id"] == "inventory"
    analyses = [node for node in plan if node["kind"] == "analyse"]
    assert len(analyses) == 5
    assert all(node["depends_on"] == ["inventory"] for node in analyses)
    after = {node["node_id"]: node["depends_on"] for node in plan[1:] if node not in analyses}
    assert after["report"] == [node["node_id"] for node in analyses]
    assert after["publish"] == after["archive"] == ["report"]
    assert after["notify"] == ["report", "publish", "archive"]


def test_a_long_path_gives_a_name_that_fits_and_is_its_own(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*["d" * 60] * 4)
    deep.mkdir(parents=True)
    for name in ("a.py", "b.py"):
        (deep / name).write_text("x = 1\n")
    plan = nodes(list_files(tmp_path, limit=10))
    names = [node["node_id"] for node in plan if node["kind"] == "analyse"]
    assert len(set(names)) == 2
    assert max(map(len, names)) <= 200
