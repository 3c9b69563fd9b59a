"""What is masked before people see it, why, and that nothing of it shows (console design, 3.7)."""

from typing import Any

import orjson
import pytest
from django.test import override_settings

from coordinator import digests
from coordinator.secrets import (
    MAX_HIDDEN,
    Hidden,
    is_secret_name,
    mask_text,
    mask_value,
    unmask,
    values_of,
)

SECRET = "hunter2-and-more"


def hidden(value: Any, *pointers: str) -> dict[str, str]:
    _, found = mask_value(value, pointers)
    return {one.pointer: one.because for one in found}


@pytest.mark.parametrize(
    "name",
    [
        "password", "Password", "DB_PASSWORD", "dbPassword", "db-password", "api_key", "apiKey", "APIKey", "X-Api-Key",
        "authorization", "Proxy-Authorization", "access_token", "refreshToken", "client_secret", "AWSSecretAccessKey",
        "private key", "set-cookie", "pass\u200bword", "\uff50\uff41\uff53\uff53\uff57\uff4f\uff52\uff44", "用户密码",
    ],
)  # fmt: skip
def test_a_name_of_a_secret_is_known_however_it_is_written(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    ["tokens", "input_tokens", "max_tokens", "tokenizer", "to", "amount", "keyboard", "author", "authorized_by",
     "passenger", "compass", "secretary", "idempotency_key", "cookies_accepted", ""],
)  # fmt: skip
def test_other_names_are_left_alone(name: str) -> None:
    assert not is_secret_name(name)


def test_what_the_installation_names_is_masked_too() -> None:
    assert not is_secret_name("tax_id")
    with override_settings(SECRET_NAMES=frozenset({"taxid"})):
        assert is_secret_name("tax_id")
        assert hidden({"customer": {"taxId": "DE1"}}) == {"/customer/taxId": "name"}


@pytest.mark.parametrize(
    ("value", "where"),
    [
        ({"auth": {"token": SECRET}}, {"/auth/token": "name"}),
        ({"token": {"deep": [SECRET]}}, {"/token": "name"}),
        ({"pin": {"otp": 123456}}, {"/pin/otp": "name"}),
        ([{"name": "Authorization", "value": SECRET}], {"/0/value": "name"}),
        ({"headers": [["X-Api-Key", SECRET], ["Accept", "text/html"]]}, {"/headers/0/1": "name"}),
        ({"a/b~c": {"password": SECRET}}, {"/a~1b~0c/password": "name"}),
        ({"run": f"curl -H 'Authorization: Bearer {SECRET}'"}, {"/run": "shape"}),
        ({"url": f"postgres://app:{SECRET}@db/app"}, {"/url": "shape"}),
        ({"text": f"see -----BEGIN RSA PRIVATE KEY-----\n{SECRET}"}, {"/text": "shape"}),
        ([f"ghp_{'a' * 24}{SECRET}"], {"/0": "shape"}),
        ({"body": orjson.dumps({"password": SECRET}).decode()}, {"/body": "name"}),
        ({"a": orjson.dumps([orjson.dumps({"pwd": SECRET}).decode()]).decode()}, {"/a": "name"}),
        ("sk-" + "b" * 30 + SECRET, {"": "shape"}),
    ],
)
def test_a_secret_is_masked_with_its_place_and_why(value: Any, where: dict[str, str]) -> None:
    shown, _ = mask_value(value)
    assert hidden(value) == where
    assert SECRET not in orjson.dumps(shown).decode()


def test_what_a_downstream_has_registered_is_masked_by_its_place() -> None:
    value = {"to": [{"iban": "DE89"}, {"iban": "FR76"}], "memo": "rent"}
    assert hidden(value, "/to/*/iban") == {"/to/0/iban": "registered", "/to/1/iban": "registered"}
    assert hidden(value, "/memo") == {"/memo": "registered"}
    assert hidden(value, "/to/2/iban", "/nothing", "") == {"": "registered"}


@pytest.mark.parametrize("value", [None, "", [], {}, True, False])
def test_nothing_is_not_masked(value: Any) -> None:
    assert hidden({"password": value}) == {}


def test_a_text_without_secrets_is_shown_to_the_byte() -> None:
    text = '{"b" : 1.0,"a":"\\u00e4"}'
    assert mask_text(text).text == text


def test_a_mask_is_the_same_for_the_same_value_and_another_for_another() -> None:
    one, same, other = (
        mask_text(orjson.dumps({"token": value}).decode()).text for value in ("a", "a", "b")
    )
    assert one == same != other
    with override_settings(SECRET_KEY="another key of another house"):
        assert mask_text('{"token":"a"}').text != one


def test_the_value_itself_is_never_changed() -> None:
    value = {"auth": {"token": SECRET}, "list": [{"password": SECRET}]}
    before = orjson.dumps(value)
    mask_value(value)
    assert orjson.dumps(value) == before


def test_what_is_no_json_is_hidden_whole() -> None:
    masked = mask_text(f'{{"password": "{SECRET}"')
    assert SECRET not in masked.text
    assert masked.hidden == (Hidden("", "shape"),)


def test_depth_and_width_cost_neither_stack_nor_memory() -> None:
    deep: Any = [1] * 50_000
    for _ in range(900):
        deep = {"n": deep}
    shown, found = mask_value({"deep": deep, "password": SECRET})
    assert [one.pointer for one in found] == ["/password"]
    assert SECRET not in str(shown["password"])
    _, many = mask_value([{"token": n + 1} for n in range(MAX_HIDDEN + 10)])
    assert len(many) == MAX_HIDDEN


def test_a_text_made_to_keep_the_shapes_busy_is_read_at_once() -> None:
    for text in ("://" * 60_000, "-----BEGIN " * 20_000, "eyJ" * 60_000, "Bearer " * 30_000):
        mask_value(text)


def test_values_are_told_by_their_places() -> None:
    text = digests.canonical({"auth": {"token": SECRET}, "otp": 7}).decode()
    told = values_of(text, mask_text(text).hidden)
    assert [(one.pointer, value) for one, value in told] == [("/auth/token", SECRET), ("/otp", "7")]


def test_what_was_edited_over_masks_gets_its_values_back() -> None:
    original = {"auth": {"token": SECRET}, "to": "a@example.org", "run": f"Bearer {SECRET}"}
    shown, _ = mask_value(original)
    edited = shown | {"to": "b@example.org"}
    value, left = unmask(edited, original)
    assert (value, left) == (original | {"to": "b@example.org"}, ())


def test_a_mask_that_was_moved_or_changed_is_named_and_never_stored_for_a_value() -> None:
    original = {"auth": {"token": SECRET}, "to": "a"}
    shown, _ = mask_value(original)
    moved = {"other": shown["auth"]["token"]}
    assert unmask(moved, original)[1] == ("/other",)
    changed = {"auth": {"token": shown["auth"]["token"] + "x"}}
    assert unmask(changed, original)[1] == ("/auth/token",)
    written = {"text": shown["auth"]["token"]}  # by the agent itself: no mask of ours
    assert unmask(written, written) == (written, ())
    replaced = {"auth": {"token": "new"}}
    assert unmask(replaced, original) == (replaced, ())
