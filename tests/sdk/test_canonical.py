"""The digest that a worker sends is the one that the coordinator computes (contract 5: RFC 8785)."""

from __future__ import annotations

import math
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from tenure import NotEncodable
from tenure.canonical import LARGEST_INTEGER, canonical, digest

_TEXT = st.text(st.characters(exclude_categories=["Cs"]))
_SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-LARGEST_INTEGER, LARGEST_INTEGER)
    | st.floats(allow_nan=False, allow_infinity=False)
    | _TEXT
)
JSON = st.recursive(
    _SCALARS, lambda inner: st.lists(inner) | st.dictionaries(_TEXT, inner), max_leaves=20
)


@given(JSON)
def test_any_value_has_the_form_that_the_reference_gives_it(value: Any) -> None:
    assert canonical(value) == rfc8785.dumps(value)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_any_number_has_the_form_of_ecmascript(number: float) -> None:
    assert canonical(number) == rfc8785.dumps(number)
    assert float(canonical(number)) == number


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, b"0"),
        (-0.0, b"0"),
        (1e21, b"1e+21"),
        (1e20, b"100000000000000000000"),
        (1e-6, b"0.000001"),
        (1e-7, b"1e-7"),
        (333333333.33333329, b"333333333.3333333"),
        (5e-324, b"5e-324"),
        (-1.5e300, b"-1.5e+300"),
    ],
)
def test_numbers_at_the_turns_of_the_format(number: float, text: bytes) -> None:
    assert canonical(number) == text


def test_members_are_ordered_by_utf_16_units_and_not_by_code_points() -> None:
    assert canonical({"\ufb33": 1, "\U0001f600": 2}) == '{"\U0001f600":2,"\ufb33":1}'.encode()


@pytest.mark.parametrize(
    ("value", "pointer"),
    [
        ({"a": [1, {"b/c": math.nan}]}, "/a/1/b~1c"),
        ({"a": math.inf}, "/a"),
        ({"a": 2**53}, "/a"),
        ({"a": "\ud800"}, "/a"),
        ({"\ud800": 1}, ""),
        ({1: "one"}, ""),
        ({"a": {1, 2}}, "/a"),
        ({"a": b"bytes"}, "/a"),
        ([object()], "/0"),
    ],
)
def test_what_is_not_json_is_refused_with_its_place(value: Any, pointer: str) -> None:
    with pytest.raises(NotEncodable) as caught:
        canonical(value)
    assert caught.value.pointer == pointer


def test_a_value_nested_too_deep_is_refused_and_does_not_exhaust_the_stack() -> None:
    value: Any = 1
    for _ in range(100_000):
        value = [value]
    with pytest.raises(NotEncodable, match="nested deeper"):
        canonical(value)


def test_a_digest_names_its_algorithm() -> None:
    assert (
        digest(b"{}") == "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
    )
