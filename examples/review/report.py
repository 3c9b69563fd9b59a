"""The report as Markdown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from examples.review.merging import (
    LISTED,
    Analyses,
    copies,
    fan_in,
    findings,
    functions_by,
    headline,
    imports,
    varied,
)

MOST_FINDINGS = 200


def make_report(analyses: Analyses, *, root: str, left_out: int) -> dict[str, Any]:
    """The result of the run: the numbers, the ranked findings, and all of it to read."""
    found = findings(analyses)
    numbers = headline(analyses)
    text = "\n".join(_chapters(analyses, numbers, root, left_out))
    return {
        "headline": numbers,
        "findings": [finding.as_json() for finding in found[:MOST_FINDINGS]],
        "finding_count": len(found),
        "first": [finding.as_json() for finding in varied(found, limit=8, of_each=2)],
        "markdown": text,
    }


def _chapters(
    analyses: Analyses, numbers: dict[str, Any], root: str, left_out: int
) -> Iterator[str]:
    first = varied(findings(analyses), limit=25, of_each=6)
    yield f"# Review of {root}\n"
    yield _summary(numbers, left_out)
    yield from _section("What to look at first", (f"`{one.where}` {one.what}" for one in first))
    yield from _section(
        "Longest functions",
        (
            f"{item['length']} lines — `{item['name']}` ({path}:{item['line']})"
            for path, item in functions_by(analyses, "length")
        ),
    )
    yield from _section(
        "Most ways through",
        (
            f"{item['complexity']} — `{item['name']}` ({path}:{item['line']}), nested {item['depth']} deep"
            for path, item in functions_by(analyses, "complexity")
        ),
    )
    graph = imports(analyses)
    yield from _section(
        "Modules that most others lean on",
        (f"{count} modules import `{name}`" for name, count in fan_in(graph).most_common(LISTED)),
    )
    busiest = sorted(graph, key=lambda name: (-len(graph[name]), name))[:LISTED]
    yield from _section(
        "Modules that lean on most others",
        (f"`{name}` imports {len(graph[name])}" for name in busiest if graph[name]),
    )
    yield from _section(
        "Blocks that stand more than once",
        (
            " = ".join(f"{path}:{line}" for path, line in places)
            for places, _ in copies(analyses)[:LISTED]
        ),
    )
    yield from _section("Public names without a docstring", _undocumented(analyses))
    yield from _section("Notes to self", _markers(analyses))
    yield from _section("Largest files", _largest(analyses))


def _summary(numbers: dict[str, Any], left_out: int) -> str:
    types = ", ".join(f"{count:,} {name}" for name, count in numbers["lines_by_type"].items())
    parts = [f"{numbers['files']} files, {numbers['lines']:,} lines ({types})."]
    if left_out:
        parts.append(f"{left_out} further files were left out.")
    if numbers["functions"]:
        parts.append(
            f"{numbers['functions']} functions, median {numbers['median_function_lines']:g} lines,"
            f" p95 {numbers['p95_function_lines']}."
        )
    if numbers["documented_publics_percent"] is not None:
        parts.append(
            f"{numbers['documented_publics_percent']} % of the public names have a docstring."
        )
    return " ".join(parts) + "\n"


def _section(title: str, lines: Iterator[str]) -> Iterator[str]:
    body = [f"- {line}" for line in lines]
    if body:
        yield f"## {title}\n"
        yield "\n".join(body) + "\n"


def _undocumented(analyses: Analyses) -> Iterator[str]:
    ranked = sorted(
        (
            (one["publics"]["undocumented_count"], path)
            for path, one in analyses.items()
            if "publics" in one
        ),
        key=lambda pair: (-pair[0], pair[1]),
    )
    for count, path in ranked[:LISTED]:
        if count:
            names = ", ".join(
                f"`{item['name']}`" for item in analyses[path]["publics"]["undocumented"][:5]
            )
            yield f"{count} in {path}: {names}{' …' if count > 5 else ''}"


def _markers(analyses: Analyses) -> Iterator[str]:
    for path in sorted(analyses):
        for marker in analyses[path].get("markers", ())[:3]:
            yield f"{marker['word']} at {path}:{marker['line']}: {marker['text']}"


def _largest(analyses: Analyses) -> Iterator[str]:
    ranked = sorted(analyses, key=lambda path: (-analyses[path].get("lines", 0), path))
    yield from (f"{analyses[path].get('lines', 0):,} lines — {path}" for path in ranked[:LISTED])
