"""The console in Chinese: every sentence of templates and code, compiled as it was written."""

import ast
import gettext
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.utils.translation.template import templatize

from tests.console.scene import Scene
from tests.console.test_pages import addresses

ROOT = Path(__file__).parent.parent.parent
CATALOGUE = ROOT / "locale" / "zh_Hans" / "LC_MESSAGES" / "django.po"
_CALL = r"""gettext\(u?("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')"""
CALLS = {"_", "gettext", "gettext_lazy", "gettext_noop", "ngettext"}


def entries() -> Iterator[dict[str, str]]:
    """Each message of the catalogue by the names of its parts: msgid, msgid_plural, msgstr, msgstr[0]."""
    for block in CATALOGUE.read_text().split("\n\n")[1:]:
        parts: dict[str, str] = {}
        name = ""
        for line in block.splitlines():
            begun = re.match(r'(?:(msgid_plural|msgid|msgstr(?:\[0\])?) )?(".*")$', line)
            if begun:
                name = begun[1] or name
                parts[name] = parts.get(name, "") + ast.literal_eval(begun[2])
        yield parts


def written() -> dict[str, str]:
    """The catalogue as text: message → translation (of the only plural form that Chinese has)."""
    return {each["msgid"]: each.get("msgstr") or each.get("msgstr[0]", "") for each in entries()}


def messages_with_plurals() -> list[tuple[str, str]]:
    """Each message with its plural, which is empty where it has none."""
    return [(each["msgid"], each.get("msgid_plural", "")) for each in entries()]


def messages_of(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in CALLS:
            first = node.args[0]
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                yield first.value


def asked_for() -> set[str]:
    """Every message in the templates and the code of the console, and of our part of the admin."""
    found: set[str] = set()
    code = [ROOT / "console", ROOT / "coordinator" / "admin", ROOT / "coordinator" / "site"]
    words = [ROOT / "coordinator" / f"task_{name}.py" for name in ("queries", "wishes")]
    for path in words:
        found |= set(messages_of(path.read_text()))
    for path in (each for folder in code for each in folder.rglob("*.py")):
        found |= set(messages_of(path.read_text()))
    for path in (ROOT / "templates").rglob("*.html"):
        for call in re.findall(_CALL, templatize(path.read_text())):
            found.add(ast.literal_eval(call))
    return found


def test_every_message_is_translated_and_none_is_left_over() -> None:
    catalogue, wanted = written(), asked_for()
    assert len(wanted) > 300
    assert wanted - set(catalogue) == set()
    assert set(catalogue) - wanted == set()
    assert [message for message, translation in catalogue.items() if not translation] == []


def test_translations_keep_the_places_of_their_messages() -> None:
    def places(text: str) -> set[str]:
        return set(re.findall(r"%\(\w+\)[.0-9]*[a-z]|\{\w+\}|<[^>]+>", text))

    assert {m for m, t in written().items() if places(m) != places(t)} == set()


def test_the_compiled_catalogue_is_the_written_one() -> None:
    with CATALOGUE.with_suffix(".mo").open("rb") as file:
        compiled: dict[Any, str] = gettext.GNUTranslations(file)._catalog  # type: ignore[attr-defined]
    told = {
        key[0] if isinstance(key, tuple) else key: text for key, text in compiled.items() if key
    }
    assert told == written()


@pytest.mark.django_db(transaction=True)
def test_pages_speak_chinese_and_keep_the_contracts_words(signed_in: Client, scene: Scene) -> None:
    for address in addresses(scene):
        page = signed_in.get(
            address, headers={"Accept-Language": "zh-CN,zh;q=0.9"}
        ).content.decode()
        assert '<html lang="zh-hans"' in page, address
        assert "概览" in page, address
    task = signed_in.get(
        f"/tasks/{scene.fenced}", headers={"Accept-Language": "zh-CN"}
    ).content.decode()
    assert "的第 2 代次自" in task
    assert "先前持有者的 2 次迟到调用被拒绝" in task
    assert "COMMITTED" in task
