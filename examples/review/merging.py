"""From the analyses of many files to what a person should look at first."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from statistics import median, quantiles
from typing import Any

from examples.review.python_code import module_name

Analyses = Mapping[str, Mapping[str, Any]]

LONG_FUNCTION = 60
COMPLEX_FUNCTION = 12
LARGE_FILE = 500
#: Blocks that stand in more files than this are boilerplate, not copies.
MOST_COPIES = 8
LISTED = 12


@dataclass(frozen=True)
class Finding:
    """One thing worth a look. `weight` orders them; nothing else is read into it."""

    subject: str
    weight: float
    where: str
    what: str

    def as_json(self) -> dict[str, Any]:
        return {
            "subject": self.subject,
            "where": self.where,
            "what": self.what,
            "weight": round(self.weight, 2),
        }


def headline(analyses: Analyses) -> dict[str, Any]:
    """The numbers of the whole."""
    lengths = sorted(item["length"] for _, item in _functions(analyses))
    publics = sum(one["publics"]["count"] for one in analyses.values() if "publics" in one)
    bare = sum(
        one["publics"]["undocumented_count"] for one in analyses.values() if "publics" in one
    )
    return {
        "files": len(analyses),
        "lines": sum(one.get("lines", 0) for one in analyses.values()),
        "lines_by_type": dict(_lines_by_type(analyses).most_common(8)),
        "functions": sum(one.get("function_count", 0) for one in analyses.values()),
        "median_function_lines": median(lengths) if lengths else 0,
        "p95_function_lines": round(quantiles(lengths, n=20)[-1]) if len(lengths) > 1 else 0,
        "documented_publics_percent": round(100 * (publics - bare) / publics) if publics else None,
        "markers": sum(len(one.get("markers", ())) for one in analyses.values()),
    }


def findings(analyses: Analyses) -> list[Finding]:
    """Everything worth a look, the weightiest first; the same analyses give the same list."""
    found = [
        *_broken(analyses),
        *_cycle_findings(analyses),
        *_function_findings(analyses),
        *_hazard_findings(analyses),
        *_copy_findings(analyses),
        *_file_findings(analyses),
    ]
    return sorted(found, key=lambda finding: (-finding.weight, finding.where, finding.what))


def varied(found: Iterable[Finding], *, limit: int, of_each: int) -> list[Finding]:
    """The weightiest, but no more than `of_each` on one subject: a list that a person reads to its end."""
    taken: Counter[str] = Counter()
    chosen = []
    for finding in found:
        if taken[finding.subject] < of_each:
            taken[finding.subject] += 1
            chosen.append(finding)
    return chosen[:limit]


def functions_by(analyses: Analyses, measure: str) -> list[tuple[str, Mapping[str, Any]]]:
    """The functions that have most of something: length, complexity, depth."""
    ranked = sorted(
        _functions(analyses), key=lambda pair: (-pair[1][measure], pair[0], pair[1]["line"])
    )
    return ranked[:LISTED]


def imports(analyses: Analyses) -> dict[str, set[str]]:
    """Which module of the project imports which others of it."""
    modules = {module_name(path): path for path in analyses if path.endswith(".py")}
    graph: dict[str, set[str]] = {}
    for name, path in modules.items():
        targets = {_nearest(modules, wanted) for wanted in analyses[path].get("imports", ())}
        graph[name] = {target for target in targets if target and target != name}
    return graph


def fan_in(graph: Mapping[str, set[str]]) -> Counter[str]:
    """How many modules import each one."""
    return Counter(target for targets in graph.values() for target in targets)


def copies(analyses: Analyses) -> list[tuple[list[tuple[str, int]], int]]:
    """Places that share code, one entry for each group of files: the first place in each, and how many blocks."""
    places: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for path in sorted(analyses):
        for name, line in analyses[path].get("blocks", ()):
            places[name].append((path, line))
    groups: dict[tuple[str, ...], list[list[tuple[str, int]]]] = defaultdict(list)
    for shared in places.values():
        if 1 < len(shared) <= MOST_COPIES:
            groups[tuple(path for path, _ in shared)].append(shared)
    # Many blocks between the same files are one long copy: its first places stand for all, weighed by their number.
    ranked = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    return [(min(blocks), len(blocks)) for _, blocks in ranked]


def _functions(analyses: Analyses) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for path, one in analyses.items():
        for function in one.get("functions", ()):
            yield path, function


def _lines_by_type(analyses: Analyses) -> Counter[str]:
    lines: Counter[str] = Counter()
    for path, one in analyses.items():
        name = path.rsplit("/", 1)[-1]
        lines[name.rsplit(".", 1)[-1] if "." in name else name] += one.get("lines", 0)
    return lines


def _nearest(modules: Mapping[str, str], wanted: str) -> str | None:
    """`a.b.c` is the module `a.b` where `c` is something inside it."""
    while wanted:
        if wanted in modules:
            return wanted
        wanted = wanted.rpartition(".")[0]
    return None


def _broken(analyses: Analyses) -> Iterator[Finding]:
    for path, one in analyses.items():
        if "syntax_error" in one:
            yield Finding("broken", 100, path, f"is not valid Python: {one['syntax_error']}")


def _function_findings(analyses: Analyses) -> Iterator[Finding]:
    for path, item in _functions(analyses):
        where = f"{path}:{item['line']}"
        if item["complexity"] > COMPLEX_FUNCTION:
            ways = f"{item['name']}() has {item['complexity']} ways through it, in {item['length']} lines"
            yield Finding("complexity", 20 + item["complexity"] / 2, where, ways)
        elif item["length"] > LONG_FUNCTION:
            told = f"{item['name']}() is {item['length']} lines long"
            yield Finding("length", 10 + item["length"] / 20, where, told)


def _hazard_findings(analyses: Analyses) -> Iterator[Finding]:
    for path, one in analyses.items():
        for hazard in one.get("hazards", ()):
            yield Finding("hazard", 30, f"{path}:{hazard['line']}", hazard["what"])


def _file_findings(analyses: Analyses) -> Iterator[Finding]:
    for path, one in analyses.items():
        if path.endswith(".py") and one.get("lines", 0) > LARGE_FILE:
            told = f"has {one['lines']} lines: more than one subject?"
            yield Finding("size", 8 + one["lines"] / 200, path, told)
        publics = one.get("publics", {})
        bare = publics.get("undocumented_count", 0)
        if bare >= 10 and bare * 2 > publics["count"]:
            told = f"{bare} of {publics['count']} public names have no docstring"
            yield Finding("undocumented", 4 + bare / 10, path, told)


def _copy_findings(analyses: Analyses) -> Iterator[Finding]:
    for places, blocks in copies(analyses):
        (first, line), *others = places
        also = ", ".join(f"{path}:{number}" for path, number in others)
        yield Finding(
            "copy",
            9 + len(others) + min(10, blocks),
            f"{first}:{line}",
            f"the same lines stand in {also}",
        )


def _cycle_findings(analyses: Analyses) -> Iterator[Finding]:
    for cycle in cycles(imports(analyses)):
        yield Finding(
            "circle",
            25 + len(cycle),
            cycle[0],
            f"imports itself in a circle: {' → '.join([*cycle, cycle[0]])}",
        )


def cycles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """One circle of imports for each knot of modules that can all reach one another."""
    found, seen = [], set[str]()
    for start in sorted(graph):
        if start in seen:
            continue
        circle = _way_back(graph, start)
        if circle:
            found.append(circle)
            seen.update(circle)
    return found


def _way_back(graph: Mapping[str, set[str]], start: str) -> list[str]:
    """The shortest way from a module to itself, breadth first."""
    ways = {start: [start]}
    front = [start]
    while front:
        following = []
        for name in front:
            for target in sorted(graph.get(name, ())):
                if target == start:
                    return ways[name]
                if target not in ways:
                    ways[target] = [*ways[name], target]
                    following.append(target)
        front = following
    return []
