"""No statement is ordered by the text of a column where it means the column.

`SELECT id::text … ORDER BY id` orders by the text, which bears the same name: 10 comes before 9, and no index serves.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def statements() -> Iterator[tuple[str, str]]:
    """Where each string of the product stands, and the string; what an f-string puts in is left out."""
    for folder in ("coordinator", "console"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for found in ast.walk(ast.parse(path.read_text())):
                match found:
                    case ast.Constant(value=str(text)):
                        yield f"{path.name}:{found.lineno}", text
                    case ast.JoinedStr(values=parts):
                        words = (part.value for part in parts if isinstance(part, ast.Constant))
                        yield f"{path.name}:{found.lineno}", " x ".join(map(str, words))


def levels(sql: str) -> list[str]:
    """The statement and what stands in each of its brackets, each without what stands in brackets of its own."""
    done, still_open = [], [""]
    for letter in sql:
        if letter == "(":
            still_open.append("")
        elif letter == ")" and len(still_open) > 1:
            done.append(still_open.pop())
        else:
            still_open[-1] += letter
    return done + still_open


def ordered_by_text(sql: str) -> list[str]:
    return [
        name
        for level in levels(sql)
        for chosen, order in re.findall(
            r"SELECT(.*?)ORDER BY(.*?)(?=LIMIT|FOR |$)", level, re.DOTALL
        )
        for name in re.findall(r"(?<![\w.])([a-z_]+)\b", order)
        if re.search(rf"(?<!\w){name}::text\b(?!\s+AS\b)", chosen)
    ]


def test_the_trap_is_seen() -> None:
    assert ordered_by_text("SELECT id::text FROM a WHERE id > 1 ORDER BY id LIMIT 3") == ["id"]
    assert ordered_by_text("SELECT x::text, (SELECT 1) FROM a ORDER BY b, x DESC") == ["x"]
    assert ordered_by_text("SELECT t.id::text FROM a t ORDER BY t.id") == []
    assert ordered_by_text("SELECT id::text FROM (SELECT id FROM a ORDER BY id) a") == []


def test_no_statement_is_ordered_by_a_text_instead_of_its_column() -> None:
    read = list(statements())
    assert sum("ORDER BY" in sql for _, sql in read) > 40
    assert {at: names for at, sql in read if (names := ordered_by_text(sql))} == {}
