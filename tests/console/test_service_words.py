"""Whatever a service says to a person is said in their language: found in the sources, not in a list of ours."""

import ast
import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.test import Client
from django.utils import translation

from console.service_words import PHRASES, SENTENCES, in_words
from coordinator.models import ShadowRound
from tests import world
from tests.console.scene import Scene
from tests.console.test_decisions import seen
from tests.shadow import feeds

ROOT = Path(__file__).parent.parent.parent / "coordinator"
SOURCES = [
    *sorted((ROOT / "services").glob("*.py")),
    *(ROOT / name for name in ("fence.py", "outcomes.py", "shadow/play.py")),
]
CHINESE = re.compile(r"[\u4e00-\u9fff]")
#: Which arguments of these calls are sentences, and what the callee puts before and after them.
SAID: dict[str, dict[int | str, tuple[str, str]]] = {
    "Refusal": {1: ("", ""), "detail": ("", "")},
    "FieldError": {1: ("", ""), "detail": ("", "")},
    "_refuse": {3: ("", "")},
    "not_found": {0: ("There is no such ", ", or it is not yours to see.")},
    "_lost": {1: ("", ""), 2: ("not finished: ", "")},
    "_part": {3: ("", ""), 4: ("", "")},
}
#: Made of what they are given by callers that are looked at themselves.
PASSED_ON = {"_part", "_lost", "not_found", "held", "_refuse", "_record", "_fenced"}


def sentences() -> Iterator[tuple[str, str]]:
    """Each sentence that a call of SAID says, with `§n§` where values stand; and where it was found."""
    for path in SOURCES:
        for function in ast.walk(ast.parse(path.read_text())):
            if not isinstance(function, ast.FunctionDef) or function.name in PASSED_ON - {
                "_fenced"
            }:
                continue
            known = _assigned(function)
            for call in ast.walk(function):
                if isinstance(call, ast.Call):
                    for text in _said_by(call, known):
                        if re.search("[a-z]{2}", text):
                            yield text, f"{path.name}:{call.lineno}"


def _assigned(function: ast.FunctionDef) -> dict[str, list[ast.expr]]:
    found: dict[str, list[ast.expr]] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found.setdefault(node.targets[0].id, []).append(node.value)
    return found


def _said_by(call: ast.Call, known: dict[str, list[ast.expr]]) -> Iterator[str]:
    name = call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
    for place, (before, after) in SAID.get(name, {}).items():
        if isinstance(place, int):
            given = call.args[place] if place < len(call.args) else None
        else:
            given = next((each.value for each in call.keywords if each.arg == place), None)
        for text in _texts(given, known) if given is not None else ():
            yield before + _numbered(text) + after


def _texts(node: ast.expr, known: dict[str, list[ast.expr]]) -> list[str]:
    """Everything that the expression may be, `§` for what is not known; nothing where nothing is."""
    match node:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.IfExp():
            return _texts(node.body, known) + _texts(node.orelse, known)
        case ast.BoolOp():
            return [text for each in node.values for text in _texts(each, known) or ["§"]]
        case ast.BinOp(op=ast.Add()):
            return [a + b for a in _texts(node.left, known) for b in _texts(node.right, known)]
        case ast.Name() if node.id in known:
            return [text for each in known[node.id] for text in _texts(each, known)]
        case ast.JoinedStr():
            parts = [
                _texts(each.value, known) or ["§"]
                if isinstance(each, ast.FormattedValue)
                else _texts(each, known)
                for each in node.values
            ]
            return ["".join(each) for each in itertools.product(*parts)]
        case _:
            return []


def _numbered(text: str) -> str:
    numbers = itertools.count(1)
    return re.sub("§", lambda _: f"§{next(numbers)}§", text)


ALL = sorted(set(sentences()))


def test_the_sources_were_read() -> None:
    assert len({text for text, _ in ALL}) > 150


@pytest.mark.parametrize(("text", "where"), ALL, ids=[where for _, where in ALL])
def test_every_sentence_is_said_in_chinese_with_what_stood_in_it(text: str, where: str) -> None:
    with translation.override("zh-hans"):
        told = in_words(text)
    assert CHINESE.search(told), (where, text)
    assert set(re.findall(r"§\d+§", told)) == set(re.findall(r"§\d+§", text))


def test_nothing_is_translated_that_nobody_says() -> None:
    said = {text for text, _ in ALL}

    def is_said(message: str) -> bool:
        pattern = re.compile(re.sub(r"\\\{\w+\\\}", "(.+?)", re.escape(message)), re.DOTALL)
        return any(pattern.fullmatch(text) for text in said)

    assert [message for message in SENTENCES if not is_said(message)] == []
    whole = "\n".join(path.read_text() for path in ROOT.rglob("*.py"))
    assert [phrase for phrase in PHRASES if f'"{phrase}' not in whole] == []


def test_english_and_what_is_not_ours_stay_as_they_are() -> None:
    ours = "The task was cancelled."
    with translation.override("en"):
        assert in_words(ours) == ours
    with translation.override("zh-hans"):
        assert in_words(ours) == "该任务已被取消。"
        for foreign in ("boom: it broke", "{not} a message", "", "cancel"):
            assert in_words(foreign) == foreign


def test_what_stands_in_a_place_is_nobodys_format_and_nobodys_sentence() -> None:
    with translation.override("zh-hans"):
        assert in_words("handed it to `{0.__class__} task`") == "交给了 `{0.__class__} task`"
        assert in_words("took the result of `task`") == "采用了 `task` 的结果"
        assert in_words("FENCED: The task was cancelled.") == "FENCED: 该任务已被取消。"
        assert in_words("FENCED: STALE_GENERATION") == "FENCED: STALE_GENERATION"


ZH = {"Accept-Language": "zh-CN"}


@pytest.mark.django_db(transaction=True)
def test_a_shadow_round_tells_in_chinese_what_legacy_did(signed_in: Client) -> None:
    world.queue(name="old", rollout_stage="SHADOW")
    told = ["<b>a</b> claims 0", "{b} claims 5", "{b} commits 9 r", "<b>a</b> commits 12 r"]
    feeds.tell(*told, by=feeds.feeder("old"), queue="old")
    feeds.settle()
    found = ShadowRound.objects.get()
    page = signed_in.get(f"/shadow/rounds/{found.round_id}", headers=ZH).content.decode()
    assert "交给了 <code>{b}</code>" in page
    assert "持有它到" in page
    assert "handed it to" not in page
    assert "<b>a</b>" not in page


@pytest.mark.django_db(transaction=True)
def test_a_refusal_and_a_fault_of_a_field_are_told_in_chinese(
    signed_in: Client, scene: Scene
) -> None:
    listed = signed_in.get("/tasks?queue=review&q=attempts%3A%3E2", headers=ZH).content.decode()
    link = re.search(r'href="(/tasks/views/new[^"]+)"', listed)
    assert link is not None
    fault = signed_in.post(
        link[1].replace("&amp;", "&"), {"name": "failed reviews"}, headers=ZH
    ).content.decode()
    assert "已有视图使用此名称" in fault
    task = world.task(scene.held)
    version = task.state_version
    stale = seen(task) | {"expected_state_version": version - 1, "shown_state": "READY"}
    refusal = signed_in.post(f"/tasks/{scene.held}/cancel", stale, headers=ZH)
    assert refusal.status_code == 409
    assert f"任务的状态版本是 {version}" in refusal.content.decode()
