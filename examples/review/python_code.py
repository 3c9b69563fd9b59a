"""What the syntax tree of a Python file tells: functions, complexity, documentation, imports, hazards."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

Definition = ast.FunctionDef | ast.AsyncFunctionDef

#: Each of these is one more way through a function (McCabe).
_BRANCHES = (
    ast.If,
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.ExceptHandler,
    ast.IfExp,
    ast.comprehension,
    ast.match_case,
)


def study(text: str, path: str) -> dict[str, Any]:
    """The facts of one file; `{"syntax_error": …}` where it is no Python."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError) as error:
        return {"syntax_error": f"line {getattr(error, 'lineno', None) or '?'}: {error.args[0]}"}
    functions = [_function(node, name) for name, node in _functions(tree)]
    return {
        "functions": sorted(functions, key=lambda item: -int(item["length"]))[:60],
        "function_count": len(functions),
        "publics": _publics(tree),
        "imports": sorted(set(_imports(tree, path))),
        "hazards": sorted(_hazards(tree), key=lambda item: int(item["line"])),
    }


def module_name(path: str) -> str:
    """The dotted name of a file below the root of its project; a `src` folder is not part of it."""
    parts = list(PurePosixPath(path).with_suffix("").parts)
    if parts[0] == "src":
        parts = parts[1:]
    if parts and parts[-1] == "__init__":
        parts = parts[:-1]
    return ".".join(parts)


def _functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, Definition]]:
    for node in ast.iter_child_nodes(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield f"{prefix}{node.name}", node
                yield from _functions(node, f"{prefix}{node.name}.")
            case ast.ClassDef():
                yield from _functions(node, f"{prefix}{node.name}.")
            case _:
                yield from _functions(node, prefix)


def _function(node: Definition, name: str) -> dict[str, Any]:
    return {
        "name": name,
        "line": node.lineno,
        "length": (node.end_lineno or node.lineno) - node.lineno + 1,
        "complexity": _complexity(node),
        "depth": _depth(node.body),
    }


def _own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """What belongs to a function itself and not to another one inside it."""
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(
            child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda
        ):
            yield from _own_nodes(child)


def _complexity(function: Definition) -> int:
    ways = 1
    for node in _own_nodes(function):
        if isinstance(node, _BRANCHES):
            ways += 1
        elif isinstance(node, ast.BoolOp):
            ways += len(node.values) - 1
    return ways


def _depth(body: list[ast.stmt]) -> int:
    """How deeply compound statements are nested in one another."""
    deepest = 0
    for statement in body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        for _, value in ast.iter_fields(statement):
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                deepest = max(deepest, 1 + _depth(value))
    return deepest


def _publics(tree: ast.Module) -> dict[str, Any]:
    """How many public definitions there are, and which have no docstring."""
    count, bare = 0, []
    for name, node in _public_definitions(tree):
        if name.startswith("test_"):
            continue  # a test's name is its sentence
        count += 1
        if ast.get_docstring(node, clean=False) is None:
            bare.append({"name": name, "line": node.lineno})
    return {"count": count, "undocumented": bare[:40], "undocumented_count": len(bare)}


def _public_definitions(
    tree: ast.Module | ast.ClassDef, prefix: str = ""
) -> Iterator[tuple[str, Definition | ast.ClassDef]]:
    for node in tree.body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() if not node.name.startswith("_"):
                yield f"{prefix}{node.name}", node
            case ast.ClassDef() if not node.name.startswith("_"):
                yield f"{prefix}{node.name}", node
                yield from _public_definitions(node, f"{prefix}{node.name}.")


def _imports(tree: ast.Module, path: str) -> Iterator[str]:
    """Every module that is imported when the file is loaded, by its absolute name."""
    package = module_name(path).split(".")
    if not path.endswith("/__init__.py"):
        package = package[:-1]
    for node in _loaded(tree):
        match node:
            case ast.Import():
                yield from (alias.name for alias in node.names)
            case ast.ImportFrom():
                base = package[: len(package) - node.level + 1] if node.level else []
                parts = [*base, *([node.module] if node.module else [])]
                yield from (".".join([*parts, alias.name]) for alias in node.names)


def _loaded(node: ast.AST) -> Iterator[ast.AST]:
    """What runs on import: no function bodies, and nothing that only type checkers see."""
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                continue
            case ast.If(test=ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING")):
                continue
        yield child
        yield from _loaded(child)


def _hazards(tree: ast.Module) -> Iterator[dict[str, Any]]:
    for node in ast.walk(tree):
        match node:
            case ast.ExceptHandler(type=None):
                yield {"line": node.lineno, "what": "bare `except:` also catches KeyboardInterrupt"}
            case ast.ExceptHandler(
                body=[ast.Pass()], type=ast.Name(id="Exception" | "BaseException")
            ):
                yield {"line": node.lineno, "what": "every exception is swallowed"}
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield from _mutable_defaults(node)
            case ast.Call(func=ast.Name(id="eval" | "exec" as name)):
                yield {"line": node.lineno, "what": f"{name}() runs whatever text it is given"}
            case ast.Compare(
                ops=[ast.Is() | ast.IsNot()],
                comparators=[ast.Constant(value=str() | int() as value)],
            ) if not isinstance(value, bool):
                yield {
                    "line": node.lineno,
                    "what": f"`is` compares identity, not the value {value!r}",
                }


def _mutable_defaults(node: Definition) -> Iterator[dict[str, Any]]:
    for default in [*node.args.defaults, *node.args.kw_defaults]:
        if isinstance(default, ast.List | ast.Dict | ast.Set):
            yield {
                "line": default.lineno,
                "what": f"{node.name}() shares one mutable default between its calls",
            }
