"""Who one is: bearer tokens, sessions with CSRF tokens, and what is refused on the way."""

import datetime as dt
import logging

import pytest
import structlog
from django.contrib.auth.models import Group, User
from django.db import connection
from django.test import Client
from django.utils import timezone

from coordinator.api.throttling import MAX_FAILURES, FailureThrottle
from coordinator.models import Credential, OperatorToken

from .callers import BASE, Api, Caller, worker


def test_a_worker_is_told_who_it_is(api: Api) -> None:
    reply = api.worker.get("/me")
    assert reply.status == 200
    assert reply.body == {
        "kind": "worker",
        "name": "worker",
        "pool": "blue",
        "queues": ["q"],
        "scopes": ["work"],
        "permissions": None,
    }


@pytest.mark.parametrize(
    "token",
    [
        "x",
        "tnr_w_000000000000_" + "0" * 64,
        "tnr_o_000000000000_" + "0" * 64,
        "tnr_x_000000000000_" + "0" * 64,
    ],
)
def test_a_token_that_is_none_of_ours_is_401(token: str, api: Api) -> None:
    reply = Caller(token).get("/me")
    assert (reply.status, reply.type) == (401, "unauthenticated")


def test_a_right_prefix_with_a_wrong_secret_is_401(api: Api) -> None:
    assert api.worker.token is not None
    assert (
        Caller(api.worker.token[:-1] + ("0" if api.worker.token[-1] != "0" else "1"))
        .get("/me")
        .status
        == 401
    )


def test_another_scheme_is_401_with_the_scheme_that_is_spoken(api: Api) -> None:
    reply = api.nobody.get("/me", Authorization="Basic YTpi")
    assert (reply.status, reply.headers["WWW-Authenticate"]) == (401, 'Bearer realm="tenure"')


def test_a_revoked_or_expired_token_is_401_at_once(api: Api) -> None:
    Credential.objects.filter(name="worker").update(revoked_at=timezone.now())
    Credential.objects.filter(name="rival").update(
        expires_at=timezone.now() - dt.timedelta(seconds=1)
    )
    assert api.worker.get("/me").status == 401
    assert api.rival.get("/me").status == 401


def test_a_token_of_a_person_who_left_is_401(api: Api) -> None:
    User.objects.filter(username=api.operator.get("/me").body["name"]).update(is_active=False)
    assert api.operator.get("/me").status == 401


def test_the_last_use_is_noted_at_most_once_a_minute(api: Api) -> None:
    api.worker.get("/me")
    first = Credential.objects.get(name="worker").last_used_at
    assert first is not None
    api.worker.get("/me")
    assert Credential.objects.get(name="worker").last_used_at == first
    Credential.objects.filter(name="worker").update(last_used_at=first - dt.timedelta(seconds=61))
    api.worker.get("/me")
    again = Credential.objects.get(name="worker").last_used_at
    assert again is not None
    assert again >= first
    api.operator.get("/me")
    assert OperatorToken.objects.filter(last_used_at__isnull=False).count() == 1


def test_identifying_a_caller_is_one_query(api: Api) -> None:
    api.worker.get("/me")
    api.operator.get("/me")
    for caller in (api.worker, api.operator):
        with connection.execute_wrapper(
            _refuse_queries
        ):  # the one query goes past Django's cursors
            assert caller.get("/me").status == 200


def _refuse_queries(_execute: object, sql: str, *_rest: object) -> None:
    raise AssertionError(f"a further query: {sql}")


def test_a_token_in_the_url_is_refused_and_never_logged(api: Api) -> None:
    token = api.worker.token
    assert token is not None
    with structlog.testing.capture_logs() as lines:
        reply = api.nobody.get(f"/me?token={token}")
    assert (reply.status, reply.type) == (400, "token-in-url")
    assert token not in str(reply.body)
    assert token not in str(lines)
    assert api.worker.get(f"/me?access_token={token}").status == 400


def test_no_log_line_and_no_answer_repeats_a_secret(
    api: Api, caplog: pytest.LogCaptureFixture
) -> None:
    assert api.worker.token is not None
    secret = api.worker.token.rsplit("_", 1)[1]
    with caplog.at_level(logging.DEBUG), structlog.testing.capture_logs() as lines:
        replies = [
            api.worker.get("/me"),
            api.worker.get("/nothing"),
            api.worker.keyed("/queues/q/claims", {}),
        ]
    assert secret not in str(lines)
    assert secret not in caplog.text
    assert all(secret not in str(reply) for reply in replies)


def test_failed_tokens_of_an_address_are_throttled_but_a_good_one_still_gets_through(
    api: Api,
) -> None:
    assert api.worker.get("/me").status == 200
    bad = Caller("tnr_w_000000000000_" + "0" * 64)
    assert {bad.get("/me").status for _ in range(MAX_FAILURES)} == {401}
    reply = bad.get("/me")
    assert (reply.status, reply.type) == (429, "throttled")
    assert 1 <= int(reply.headers["Retry-After"]) <= 61
    assert api.worker.get("/me").status == 200


def test_the_window_of_an_address_ends_and_so_does_its_bound() -> None:
    throttle = FailureThrottle(max_failures=2, window_seconds=0.0)
    for _ in range(5):
        throttle.note_failure("10.0.0.1")
    assert throttle.seconds_to_wait("10.0.0.1", "p") == 0
    throttle = FailureThrottle(max_failures=2)
    throttle.note_failure("10.0.0.1")
    assert throttle.seconds_to_wait("10.0.0.1", "p") == 0
    throttle.note_failure("10.0.0.1")
    assert throttle.seconds_to_wait("10.0.0.1", "p") > 0
    assert throttle.seconds_to_wait("10.0.0.2", "p") == 0


# --- people in a browser -----------------------------------------------------------------------


@pytest.fixture
def signed_in(api: Api) -> Client:
    user = User.objects.create_user("olga", password="correct horse battery")
    user.groups.add(Group.objects.get(name="operator"))
    client = Client(enforce_csrf_checks=True)
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    return client


def test_a_signed_in_person_reads_with_the_session_alone(signed_in: Client) -> None:
    told = signed_in.get(f"{BASE}/me").json()
    assert told["name"] == "olga"
    assert "submit" in told["permissions"]


def test_a_write_by_session_needs_the_csrf_token(signed_in: Client) -> None:
    body = {"intake": "STOPPED", "reason": "maintenance"}
    refused = signed_in.post(f"{BASE}/queues/q/intake", body, content_type="application/json")
    assert refused.status_code == 403
    assert refused.json()["type"].endswith("/csrf")
    signed_in.cookies["tenure_csrf"] = "a" * 32
    granted = signed_in.post(
        f"{BASE}/queues/q/intake",
        body,
        content_type="application/json",
        headers={"X-CSRFToken": "a" * 32},
    )
    assert granted.status_code == 200, granted.content
    assert granted.json()["intake"] == "STOPPED"


def test_a_bearer_token_needs_no_csrf_token_and_beats_the_session(
    api: Api, signed_in: Client
) -> None:
    caller = Caller(api.viewer.token, client=signed_in)
    assert caller.post("/queues/q/intake", {"intake": "OPEN", "reason": "r"}).outcome == "FORBIDDEN"


def test_a_form_from_another_site_is_no_way_in(signed_in: Client) -> None:
    reply = signed_in.post(f"{BASE}/queues/q/intake", {"intake": "STOPPED", "reason": "r"})
    assert reply.status_code in (403, 415)
    assert reply.headers["Content-Type"] == "application/problem+json"


def test_a_credential_for_shadow_may_only_look_at_its_queue(api: Api) -> None:
    caller = worker("shadow", scopes=("shadow",))
    assert caller.get("/queues/q").status == 200
    assert caller.get("/tasks").outcome == "FORBIDDEN"
