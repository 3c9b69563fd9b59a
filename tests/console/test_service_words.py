"""Whatever a service says to a person is said in their language: found in the sources, not in a list of ours."""

import ast
import itertools
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from django.db.models.functions import Now
from django.test import Client
from django.utils import translation

from console import reasons
from console.service_sentences import PHRASES, SENTENCES
from console.service_words import LONGEST, in_words
from coordinator import digests
from coordinator.models import Installation, ShadowRound
from coordinator.services.identity import MEND
from tests import world
from tests.console.scene import Scene
from tests.console.test_decisions import seen
from tests.shadow import feeds

ROOT = Path(__file__).parent.parent.parent / "coordinator"
SOURCES = [
    *sorted((ROOT / "services").glob("*.py")),
    *sorted((ROOT / "selectors").glob("*.py")),
    *(
        ROOT / name
        for name in ("digests.py", "fence.py", "outcomes.py", "seen.py", "shadow/play.py")
    ),
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
    "ruling": {1: ("", "")},
    "wrong_step": {0: ("", "")},
    "_stale": {1: ("", "")},
    "_settled_refusal": {1: ("", "")},
    "_not_sealed": {0: ("", "")},
    "Reason": {1: ("", "")},
    "Criterion": {"detail": ("", "")},
    "ChainFault": {3: ("", "")},
    "NotCanonical": {0: ("", "")},
    "DontKnow": {"detail": ("", "")},
    "_heard": {1: ("", "")},
    "end": {1: ("", "")},
    "file_identity": {"hold": ("", "")},
    "tell": {"reason": ("", "")},
    "task_fact": {"reason": ("", "")},
}
#: Made of what they are given by callers that are looked at themselves.
PASSED_ON = {
    "_part",
    "_lost",
    "not_found",
    "_refuse",
    "ruling",
    "wrong_step",
    "_settled_refusal",
    "_not_sealed",
    "_heard",
}
#: What can't be read where it is said: why it needs no reading there.
UNREAD = {
    "ChainFault row.fault_detail": "said by the walk along the chain, and stored",
    "FieldError fault[1]": "the shadow's feed answers programs only",
    "FieldError str(error)": "said where NotCanonical is raised",
    "NotCanonical str(error)": "a library's own words",
    "Refusal detail": "said by the callers, which are in SAID",
    "Refusal hold": "said where intake is held: RETURNING and `file_identity`",
    "_heard detail": "a downstream's own words",
    "_stale expected_epoch": "another function of this name: epochs, no sentence",
    "end reason": "a person's own words",
    "end why": "said by `void_because`",
    "end word.reason": "a person's own words",
    "file_identity hold": "said by `_compare` and by the start of a restore",
    "not_found subject.part": "the page names the part, not the refusal",
}
#: Reasons of a task that the console tells in words of its own.
TOLD = reasons.TOLD_ABOVE | set(reasons.IN_WORDS)
#: Functions whose answer is a sentence, or a list of them, instead of a call that says one.
RETURNING = {"void_because", "differences", "_compare"}


NOT_READ = "?? "
Known = dict[str, list[ast.expr]]


def sentences() -> Iterator[tuple[str, str]]:
    """Each sentence that a call of SAID says, with `7700n` where values stand; and where it was found."""
    modules = {path: ast.parse(path.read_text()) for path in SOURCES}
    constants = {path: _assigned(module.body) for path, module in modules.items()}
    shared = {name: value for known in constants.values() for name, value in known.items()}
    for path, module in modules.items():
        for function in ast.walk(module):
            if not isinstance(function, ast.FunctionDef) or function.name in PASSED_ON:
                continue
            known = shared | constants[path] | _assigned(ast.walk(function))
            for text, line in _said_in(function, known):
                if re.search("[a-z]{2}", text):
                    yield text, f"{path.name}:{line}"


def _assigned(nodes: Iterable[ast.AST]) -> Known:
    found: Known = {}
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                found.setdefault(name, []).append(value)
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
                for each, given in zip(names, values, strict=True):
                    if isinstance(each, ast.Name):
                        found.setdefault(each.id, []).append(given)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as given):
                found.setdefault(name, []).append(given)
    return found


def _said_in(function: ast.FunctionDef, known: Known) -> Iterator[tuple[str, int]]:
    for node in ast.walk(function):
        if isinstance(node, ast.Call):
            yield from ((text, node.lineno) for text in _said_by(node, known))
        elif function.name in RETURNING:
            yield from ((_numbered(text), line) for text, line in _returned_by(node, known))


def _returned_by(node: ast.AST, known: Known) -> Iterator[tuple[str, int]]:
    """What a function of RETURNING gives back by itself: what it returns, and what it gathers in `told`."""
    match node:
        case ast.Return(value=ast.expr() as value):
            yield from ((text, node.lineno) for text in _texts(value, known))
        case ast.AugAssign(target=ast.Name(id="told"), value=ast.ListComp(elt=each)):
            yield from ((text, node.lineno) for text in _texts(each, known))
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="append"), args=[each])):
            yield from ((text, node.lineno) for text in _texts(each, known))


def _said_by(call: ast.Call, known: Known) -> Iterator[str]:
    name = call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
    if _is_told_otherwise(name, call):
        return
    for place, (before, after) in SAID.get(name, {}).items():
        if isinstance(place, int):
            given = call.args[place] if place < len(call.args) else None
        else:
            given = next((each.value for each in call.keywords if each.arg == place), None)
        for text in _texts(given, known) if given is not None else ():
            yield before + _numbered(text) + after
        if given is not None and not _texts(given, known):
            yield f"{NOT_READ}{name} {ast.unparse(given)}"


def _is_told_otherwise(name: str, call: ast.Call) -> bool:
    """Whether the console has words of its own for it, or shows no reason of such an event."""
    match name, call.args:
        case "Reason", [ast.Constant(value=str(code)), *_]:
            return code in TOLD
        case "tell" | "task_fact", [kind, *_]:
            return ast.unparse(kind) != "EventKind.EFFECT_UNKNOWN"
        case _:
            return False


def _texts(node: ast.expr, known: Known) -> list[str]:
    """Everything that the expression may be, `§` for what is not known; nothing where nothing is."""
    match node:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.IfExp():
            return _texts(node.body, known) + _texts(node.orelse, known)
        case ast.BoolOp():
            return [text for each in node.values for text in _texts(each, known) or ["§"]]
        case ast.BinOp(op=ast.Add()):
            sides = [_texts(each, known) or ["§"] for each in (node.left, node.right)]
            return [a + b for a, b in itertools.product(*sides)]
        case ast.Name() if node.id in known:
            others = {name: values for name, values in known.items() if name != node.id}
            return [text for each in known[node.id] for text in _texts(each, others)]
        case ast.Attribute(value=ast.Name(id=module), attr=name) if module.islower():
            return _texts(ast.Name(id=name), known) if name.isupper() else []
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
    return re.sub("§", lambda _: f"7700{next(numbers)}", text)


FOUND = sorted(set(sentences()))
ALL = [(text, where) for text, where in FOUND if not text.startswith(NOT_READ)]


def test_the_sources_were_read() -> None:
    assert len({text for text, _ in ALL}) > 250
    unread = {text.removeprefix(NOT_READ) for text, _ in FOUND if text.startswith(NOT_READ)}
    assert unread == set(UNREAD)


@pytest.mark.parametrize(("text", "where"), ALL, ids=[where for _, where in ALL])
def test_every_sentence_is_said_in_chinese_with_what_stood_in_it(text: str, where: str) -> None:
    with translation.override("zh-hans"):
        told = in_words(text)
    assert CHINESE.search(told), (where, text)
    assert set(re.findall(r"7700\d", told)) == set(re.findall(r"7700\d", text))


def test_nothing_is_translated_that_nobody_says() -> None:
    said = {text for text, _ in ALL}

    def is_said(message: str) -> bool:
        pattern = re.compile(re.sub(r"\\\{\w+\\\}", "(.+?)", re.escape(message)), re.DOTALL)
        return any(pattern.fullmatch(text) for text in said)

    assert [message for message in SENTENCES if not is_said(message)] == []
    whole = "\n".join(path.read_text() for path in ROOT.rglob("*.py"))

    def stands(phrase: str) -> bool:
        literal = re.sub(r"\\\{\w+\\\}", r"\\{[^}]+\\}", re.escape(phrase))
        return re.search(f'"{literal}', whole) is not None

    assert [phrase for phrase in PHRASES if not stands(phrase)] == []


def test_english_and_what_is_not_ours_stay_as_they_are() -> None:
    ours = "The task was cancelled."
    with translation.override("en"):
        assert in_words(ours) == ours
    with translation.override("zh-hans"):
        assert in_words(ours) == "该任务已被取消。"
        for foreign in ("boom: it broke", "{not} a message", "", "cancel"):
            assert in_words(foreign) == foreign


def test_no_sentence_takes_long_to_look_for() -> None:
    """Whatever others write, a page looks for it among ours in bounded steps: what is longer is none of them."""
    with translation.override("zh-hans"):
        for word in ("; from to ", " to ", "{told}", "`", ". ", "nodes; at most "):
            hostile = word * (100_000 // len(word))
            assert in_words(hostile) == hostile
            assert in_words(hostile[:LONGEST]) == hostile[:LONGEST]


def test_what_stands_in_a_place_is_nobodys_format_and_nobodys_sentence() -> None:
    with translation.override("zh-hans"):
        assert in_words("handed it to `{0.__class__} task`") == "交给了 `{0.__class__} task`"
        assert in_words("took the result of `task`") == "采用了 `task` 的结果"
        assert in_words("FENCED: The task was cancelled.") == "FENCED: 该任务已被取消。"
        assert in_words("FENCED: the task") == "FENCED: the task"
        assert in_words("FENCED: STALE_GENERATION") == "FENCED: STALE_GENERATION"


def test_sentences_one_after_another_are_told_each_and_a_sentence_within_another_too() -> None:
    gate = "1 of 3 rounds settled since 2026-01-02T03:04:05+00:00. 2 mismatches that nobody has explained."
    with translation.override("zh-hans"):
        void = in_words(f"The request is void: the gate has closed: {gate}")
        for told in (in_words(gate), void):
            assert "已了结 1 个轮次" in told
            assert "有 2 处不一致无人解释" in told
            assert re.search("[a-z]", told) is None
        assert "闸门已关闭" in void
        assert in_words(f"{gate} Boom.") == f"{gate} Boom."
        hold = (
            "Queue '<b>' had epoch 7; here it has 5. Intake is held and nothing is sent until an"
            " operator has run `manage.py after_restore`."
        )
        assert in_words(hold).startswith("队列 '<b>' 的纪元曾为 7")
        assert "接收已被扣住" in in_words(hold)


def test_what_keeps_a_number_out_of_json_is_told_within_the_fault_of_its_field() -> None:
    with pytest.raises(digests.NotCanonical) as raised:
        digests.canonical({"n": 2.0**60})
    with translation.override("zh-hans"):
        told = in_words(f"It has no canonical JSON form: {raised.value}.")
        assert "请作为字符串发送" in told
        assert CHINESE.search(in_words(str(raised.value)))


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


@pytest.mark.django_db(transaction=True)
def test_a_ruling_on_a_task_and_a_standing_hold_are_told_in_chinese(
    signed_in: Client, scene: Scene
) -> None:
    form = seen(world.task(scene.fenced))
    refusal = signed_in.post(f"/tasks/{scene.fenced}/cancel", form, headers=ZH)
    assert refusal.status_code == 409
    assert "它的提交先到" in refusal.content.decode()
    hold = f"Queue '<b>`{{0}}`' had epoch 7; here it has 5. {MEND}"
    with world.guarded():
        Installation.objects.update(held_because=hold, held_since=Now())
    banner = signed_in.get("/tasks", headers=ZH).content.decode()
    assert "队列 &#x27;&lt;b&gt;`{0}`&#x27; 的纪元曾为 7" in banner
    assert MEND not in banner
    with world.guarded():
        Installation.objects.update(held_because="Somebody's own words.")
    assert '<span lang="en">Somebody' in signed_in.get("/tasks", headers=ZH).content.decode()
