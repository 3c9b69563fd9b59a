"""Text made safe to look at."""

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import pytest

from console.diffs import compare
from console.visible import coded, compact, pretty_json, visible, visible_in_attribute, visible_name
from coordinator.record_masks import masked_record

AT = datetime(2026, 11, 30, tzinfo=UTC)


class Word(StrEnum):
    OPEN = "OPEN"


@dataclass(frozen=True, slots=True)
class Inner:
    why: str
    data: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Outer:
    inner: tuple[Inner, ...]
    state: Word
    at: datetime


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("<b>&\"'", "&lt;b&gt;&amp;&quot;&#x27;"),
        ("a\u202eb", 'a<span class="esc" title="RIGHT-TO-LEFT OVERRIDE">U+202E</span>b'),
        ("a\x00b", 'a<span class="esc" title="control character">U+0000</span>b'),
        ("tab\there", 'tab<span class="esc" title="control character">U+0009</span>here'),
        ("e\u0301 中文 🙂 عربي", "e\u0301 中文 🙂 عربي"),
        (None, ""),
        (7, "7"),
    ],
)
def test_text_is_escaped_and_nothing_in_it_hides(text: object, shown: str) -> None:
    assert visible(text) == shown


def test_lines_stay_lines_where_they_are_wanted() -> None:
    assert (
        visible("a\r\n\tb\u200b", lines=True)
        == 'a\n\tb<span class="esc" title="ZERO WIDTH SPACE">U+200B</span>'
    )


def test_attributes_get_plain_words() -> None:
    assert visible_in_attribute("a\u2066b\n") == "a⟨U+2066⟩b⟨U+000A⟩"


def test_every_character_that_changes_direction_or_takes_no_room_is_drawn() -> None:
    unseen = [
        *range(0x200B, 0x2010),
        *range(0x202A, 0x202F),
        *range(0x2060, 0x2070),
        0xFEFF,
        0xAD,
        0xE0041,
        0x3164,
    ]
    assert all("esc" in visible(chr(code)) for code in unseen)


def test_json_is_indented_and_cut_json_is_left_alone() -> None:
    assert pretty_json('{"a":[1,"ü"]}') == '{\n  "a": [\n    1,\n    "ü"\n  ]\n}'
    assert pretty_json('{"a":[1,') == '{"a":[1,'
    assert compact({"a": [1]}) == '{"a": [1]}'
    assert compact("x") == "x"


def test_small_values_of_events_read_as_words() -> None:
    assert compact(["send", "notify"]) == "send, notify"
    assert compact({"reviews": 2, "open": True}) == "reviews 2, open true"
    assert compact({}) == "{}"


def test_a_long_name_breaks_at_its_seams_and_a_short_one_not() -> None:
    assert visible_name("merge/all") == "merge/all"
    assert visible_name("analyse coordinator/fence.py") == "analyse coordinator/<wbr>fence.py"
    assert visible_name("AWAITING_APPROVAL") == "AWAITING_<wbr>APPROVAL"
    assert visible_name("<b>/" + "x" * 30) == "&lt;b&gt;/" + "x" * 30


def test_a_difference_is_told_line_by_line() -> None:
    lines = compare('{"a":1,"b":2}', '{"a":1,"b":3}')
    assert lines is not None
    assert [
        (line.css, line.text.strip()) for line in lines if line.css in ("added", "removed")
    ] == [
        ("removed", '"b": 2'),
        ("added", '"b": 3'),
    ]
    assert compare("{}", "{}") == ()
    assert compare("{}", "[" + ",".join(["1"] * 4000) + "]") is None


def test_texts_of_several_lines_are_compared_by_their_lines() -> None:
    lines = compare('{"t":"a\\nb\\nc"}', '{"t":"a\\nx\\nc"}', by_line=True)
    assert lines is not None
    assert [
        (line.css, line.text.strip()) for line in lines if line.css in ("added", "removed")
    ] == [
        ("removed", '"b",'),
        ("added", '"x",'),
    ]
    secret = "-----BEGIN PRIVATE KEY-----\\nMIIB\\n-----END PRIVATE KEY-----"
    masked_lines = compare(f'{{"t":"{secret}\\nb"}}', '{"t":"n"}', by_line=True)
    assert masked_lines is not None
    assert "MIIB" not in str(masked_lines)


def test_names_between_backticks_are_code_and_an_odd_one_is_left_alone() -> None:
    assert coded("took `<b>`'s") == "took <code>&lt;b&gt;</code>&#x27;s"
    assert coded("an odd ` one") == "an odd ` one"
    assert coded("") == ""


def test_a_record_is_masked_in_its_texts_and_keeps_what_is_ours() -> None:
    secret = "Bearer abcdefghijklmnop"
    inner = Inner(why=f"with {secret}", data={"token_id": 7, "said": {"password": "x"}})
    shown = masked_record(Outer(inner=(inner,), state=Word.OPEN, at=AT))
    assert shown.state is Word.OPEN
    assert shown.at == AT
    (one,) = shown.inner
    assert one.why.startswith("with [masked: shape #")
    assert one.data["token_id"] == 7
    assert one.data["said"]["password"].startswith("[masked: name #")
