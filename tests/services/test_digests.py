"""Digests and canonical JSON against the reference library (contract 5, RFC 8785)."""

import json
from typing import Any

import orjson
import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from coordinator.digests import MAX_DEPTH, NotCanonical, canonical, effect_id, sha256

MAX_SAFE = 2**53 - 1
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"))
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-MAX_SAFE, MAX_SAFE)
    | st.floats(-MAX_SAFE, MAX_SAFE)
    | st.floats(1e21, allow_infinity=False)
    | TEXT
)
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner), max_leaves=30
)


@given(JSON)
def test_the_fast_way_writes_what_the_reference_writes(value: Any) -> None:
    assert canonical(value) == rfc8785.dumps(value)


@given(JSON)
def test_what_is_canonical_stays_so(value: Any) -> None:
    once = canonical(value)
    assert canonical(orjson.loads(once)) == once


@given(st.dictionaries(TEXT, SCALARS, min_size=2))
def test_order_and_spacing_of_the_source_do_not_matter(value: dict[str, Any]) -> None:
    reordered = dict(reversed(value.items()))
    assert canonical(json.loads(json.dumps(reordered, indent=3))) == canonical(value)


@given(TEXT, TEXT)
def test_keys_are_sorted_by_utf_16_units(one: str, other: str) -> None:
    keys = [pair[0] for pair in json.loads(canonical({one: 1, other: 2}), object_pairs_hook=list)]
    assert keys == sorted({one, other}, key=lambda key: key.encode("utf-16-be"))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1"),
        (-0.0, "0"),
        (1e21, "1e+21"),
        (1e-7, "1e-7"),
        (333333333.33333329, "333333333.3333333"),
        ("\u20ac$\u000f\nA'B\"\\", '"€$\\u000f\\nA\'B\\"\\\\"'),
        ({"\U0001f600": 1, "\ufb33": 2}, '{"\U0001f600":1,"\ufb33":2}'),
        ({"peach": 1, "péché": 2, "pêche": 3, "sin": 4}, '{"peach":1,"péché":2,"pêche":3,"sin":4}'),
        (MAX_SAFE, "9007199254740991"),
    ],
)
def test_known_values(value: Any, text: str) -> None:
    assert canonical(value).decode() == text


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        float("-inf"),
        MAX_SAFE + 1,
        -MAX_SAFE - 1,
        10**30,
        float(MAX_SAFE + 1),
        -1e20,
        "\x00",
        {"a\x00": 1},
        ["\\\x00"],
        "\ud800",
        {"\udc00": 1},
        {1: 2},
        {"a": object()},
        {"a": {1, 2}},
    ],
)
def test_what_has_no_canonical_form_is_refused(value: Any) -> None:
    for place in (value, [value], {"k": value}, {"k": [1.5, value]}):
        with pytest.raises(NotCanonical):
            canonical(place)


def test_a_backslash_before_u0000_is_no_nul() -> None:
    assert canonical("\\u0000") == b'"\\\\u0000"'


def _nested(levels: int) -> Any:
    value: Any = 1
    for level in range(levels):
        value = [value] if level % 2 else {"k": value}
    return value


def test_nesting_is_bounded() -> None:
    assert canonical(_nested(MAX_DEPTH - 1))
    with pytest.raises(NotCanonical, match="nested deeper than 100"):
        canonical(_nested(MAX_DEPTH))
    with pytest.raises(NotCanonical, match="nested deeper"):
        canonical(_nested(50_000))


def test_a_digest_names_its_algorithm() -> None:
    assert sha256(b"") == "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def test_the_effect_id_is_what_the_contract_spells_out() -> None:
    import hashlib

    spelled = b"claim.v1" + b"".join(
        len(part).to_bytes(4, "big") + part for part in (b"t-1", b"n", "über".encode())
    )
    expected = hashlib.sha256(spelled).hexdigest()
    assert effect_id(task_id="t-1", node_id="n", slot="über") == expected


@given(st.tuples(TEXT, TEXT, TEXT), st.tuples(TEXT, TEXT, TEXT))
def test_no_two_places_share_an_effect_id(
    one: tuple[str, str, str], other: tuple[str, str, str]
) -> None:
    ids = [effect_id(task_id=each[0], node_id=each[1], slot=each[2]) for each in (one, other)]
    assert (ids[0] == ids[1]) == (one == other)


def test_boundaries_between_the_parts_count() -> None:
    assert effect_id(task_id="ab", node_id="c", slot="") != effect_id(
        task_id="a", node_id="bc", slot=""
    )


def test_the_fast_way_is_taken_for_what_is_common(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(value: Any) -> bytes:
        raise AssertionError("the slow library was asked")

    monkeypatch.setattr(rfc8785, "dumps", slow)
    assert canonical({"b": [1, "ä", None, True], "a": {"x": "2026-01-01"}})
