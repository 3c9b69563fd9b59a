"""Bad input: one clear refusal each, every fault at once, and no row touched (contract 5)."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from coordinator.api.reading import MAX_BODY_BYTES
from coordinator.services.graphs import MAX_NODES
from tests.world import fingerprint

from .callers import Api, Reply, attempt_path, commit_body, new_key, node

DEEP = 150
EVERYTHING = (
    "queue",
    "run",
    "task",
    "dependency",
    "attempt",
    "stagedresult",
    "canonicalcommit",
    "memoryfact",
    "event",
)


@pytest.fixture(autouse=True)
def _nothing_is_written(api: Api) -> Iterator[None]:
    before = fingerprint(*EVERYTHING)
    yield
    assert fingerprint(*EVERYTHING) == before


def submit_raw(api: Api, raw: bytes, **rest: Any) -> Reply:
    return api.operator.send("POST", "/runs", raw=raw, key=new_key(), **rest)


def submit_nodes(api: Api, *nodes: Any, **fields: Any) -> Reply:
    return api.operator.keyed("/runs", {"queue": "q", "nodes": list(nodes), **fields})


def invalid(reply: Reply) -> set[str]:
    assert (reply.status, reply.type, reply.outcome) == (422, "invalid-input", "INVALID"), reply
    assert reply.body["retry"] == "never"
    assert all(error["detail"] for error in reply.body["errors"])
    return reply.pointers


@pytest.mark.parametrize(
    ("raw", "where"),
    [
        (b" ", "empty"),
        (b"{", "column 2"),
        (b'{"queue": "q",}', "column 14"),
        (b"[1\n2]", "line 2"),
        (b'{"queue": NaN}', "column 11"),
        (b'{"queue": Infinity}', "column 11"),
        (b'{"queue": 1e999}', "column 11"),
        (b'{"queue": "\xff"}', "UTF-8"),
        (b'{"queue": "\\ud800"}', "surrogate"),
        (b'{"queue": "a\x00b"}', "control character"),
        (b"\xef\xbb\xbf{}", "BOM"),
    ],
)
def test_malformed_json_is_told_with_its_place(raw: bytes, where: str, api: Api) -> None:
    reply = submit_raw(api, raw)
    assert invalid(reply) == {""}
    assert where in reply.body["errors"][0]["detail"]


@pytest.mark.parametrize("raw", [b"null", b"[]", b'"x"', b"1"])
def test_a_body_that_is_no_object_is_refused(raw: bytes, api: Api) -> None:
    assert invalid(submit_raw(api, raw)) == {""}


def test_every_fault_is_told_at_once_by_its_pointer(api: Api) -> None:
    body = {
        "queue": 7,
        "nodes": [
            {"node_id": "a", "kind": "", "input": {}, "depend_on": []},
            {"kind": "k", "input": {"x": 2**60, "y": "a\x00b"}, "priority": "1", "max_attempts": 0},
        ],
        "meta": {},
    }
    assert invalid(api.operator.keyed("/runs", body)) == {
        "/queue",
        "/nodes/0/kind",
        "/nodes/0/depend_on",
        "/nodes/1/node_id",
        "/nodes/1/input/x",
        "/nodes/1/input/y",
        "/nodes/1/priority",
        "/nodes/1/max_attempts",
        "/meta",
    }


def test_pointers_escape_what_json_pointers_must(api: Api) -> None:
    assert invalid(submit_nodes(api, node("a", input={"a/b~c": [1, "\x00"]}))) == {
        "/nodes/0/input/a~1b~0c/1"
    }


def test_unknown_fields_are_refused_by_name_at_every_level(api: Api) -> None:
    reply = submit_nodes(api, node("a", prio=1), colour="red")
    assert invalid(reply) == {"/nodes/0/prio", "/colour"}


@pytest.mark.parametrize("value", [2**53, -(2**53), 2**64, 10**40])
def test_integers_beyond_2_53_are_refused_where_they_stand(value: int, api: Api) -> None:
    reply = submit_nodes(api, node("a", input={"n": [value]}))
    assert invalid(reply) == {"/nodes/0/input/n/0"}
    assert "string" in reply.body["errors"][0]["detail"]


def test_the_largest_integers_and_long_digits_in_texts_are_fine(api: Api) -> None:
    reply = api.operator.keyed(
        "/runs", {"queue": "nowhere", "nodes": [node("a", input=[2**53 - 1, "9" * 40])]}
    )
    assert invalid(reply) == {"/queue"}


@pytest.mark.parametrize("depth", [DEEP, 5_000])
def test_deep_nesting_is_refused_where_it_gets_too_deep(depth: int, api: Api) -> None:
    raw = (
        b'{"queue":"q","nodes":[{"node_id":"a","kind":"k","input":'
        + b"[" * depth
        + b"]" * depth
        + b"}]}"
    )
    reply = submit_raw(api, raw)
    pointers = invalid(reply)
    if depth == DEEP:
        (pointer,) = pointers
        assert pointer.startswith("/nodes/0/input/0/0")
        assert "flatten" in reply.body["errors"][0]["detail"]


def test_nul_in_a_name_of_an_object_is_refused(api: Api) -> None:
    assert invalid(submit_nodes(api, node("a", input={"a\x00": 1}))) == {"/nodes/0/input"}


def test_a_body_over_one_mebibyte_is_413_and_says_where_larger_results_go(api: Api) -> None:
    reply = submit_raw(api, b'{"queue":"' + b"x" * MAX_BODY_BYTES + b'"}')
    assert (reply.status, reply.type) == (413, "too-large")
    assert "blob" in reply.body["detail"]


def test_a_declared_length_is_refused_before_anything_is_read(api: Api) -> None:
    reply = submit_raw(api, b"{}", Content_Length=str(10**12))
    assert reply.status == 413


@pytest.mark.parametrize(
    "content_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""]
)
def test_another_content_type_is_415(content_type: str, api: Api) -> None:
    reply = submit_raw(api, b"{}", content_type=content_type)
    assert (reply.status, reply.type) == (415, "unsupported-media-type")


def test_a_charset_beside_the_content_type_is_fine(api: Api) -> None:
    assert invalid(submit_raw(api, b"{}", content_type="application/json; charset=utf-8")) == {
        "/queue",
        "/nodes",
    }


def test_a_cycle_is_named(api: Api) -> None:
    reply = submit_nodes(api, node("a", "c"), node("b", "a"), node("c", "b"))
    assert invalid(reply)
    assert "a" in reply.body["errors"][0]["detail"]
    assert "cycle" in reply.body["errors"][0]["detail"].lower()


def test_a_node_on_itself_and_on_nothing_are_both_told(api: Api) -> None:
    reply = submit_nodes(api, node("a", "a"), node("b", "nothing"), node("b"))
    assert {"/nodes/1/depends_on/0", "/nodes/2/node_id"} <= invalid(reply)


def test_ten_thousand_and_one_nodes_are_refused_whole(api: Api) -> None:
    nodes = [{"node_id": f"n{i}", "kind": "k", "input": 0} for i in range(MAX_NODES + 1)]
    reply = submit_nodes(api, *nodes)
    assert invalid(reply) == {"/nodes"}
    assert str(MAX_NODES) in reply.body["errors"][0]["detail"]


def test_a_run_without_nodes_is_refused(api: Api) -> None:
    assert invalid(submit_nodes(api)) == {"/nodes"}


@pytest.mark.parametrize("ttl", [-1, 0, 4, 1.5, "60", True, 2**31])
def test_a_ttl_that_is_no_span_of_whole_seconds_is_refused(ttl: Any, api: Api) -> None:
    body = {"scheduler_epoch": 1, "owner": "w", "ttl_seconds": ttl}
    assert invalid(api.worker.keyed("/queues/q/claims", body)) == {"/ttl_seconds"}


@pytest.mark.parametrize("ttl", [b"Infinity", b"-Infinity", b"NaN", b"1e999"])
def test_an_infinite_ttl_is_not_even_json(ttl: bytes, api: Api) -> None:
    raw = b'{"scheduler_epoch":1,"owner":"w","ttl_seconds":' + ttl + b"}"
    assert invalid(api.worker.send("POST", "/queues/q/claims", raw=raw, key=new_key())) == {""}


@pytest.mark.parametrize("limit", [0, -1, 101, "5", 1.0])
def test_a_limit_out_of_bounds_is_refused(limit: Any, api: Api) -> None:
    body = {"scheduler_epoch": 1, "owner": "w", "limit": limit}
    assert invalid(api.worker.keyed("/queues/q/claims", body)) == {"/limit"}


@pytest.mark.parametrize(
    "at",
    ["tomorrow", "2026-01-01T00:00:00", "1999-12-31T23:59:59Z", "9999-12-31T23:59:59-12:00", 5],
)
def test_an_instant_without_a_zone_or_out_of_all_measure_is_refused(at: Any, api: Api) -> None:
    assert invalid(submit_nodes(api, node("a", not_before=at))) == {"/nodes/0/not_before"}


def test_a_key_is_required_where_a_repeat_would_act_twice(api: Api) -> None:
    for path, caller in (
        ("/runs", api.operator),
        ("/tasks", api.operator),
        ("/queues/q/claims", api.worker),
        ("/credentials", api.admin),
    ):
        reply = caller.post(path, {})
        assert (reply.status, reply.type, reply.body["retry"]) == (
            400,
            "idempotency-key-missing",
            "never",
        )


@pytest.mark.parametrize("key", ["short", "x" * 256, "sixteen-characté", "tab\tin-the-middle"])
def test_a_key_of_the_wrong_form_is_refused(key: str, api: Api) -> None:
    reply = api.worker.send("POST", "/queues/q/claims", {}, key=key)
    assert (reply.status, reply.type) == (400, "idempotency-key-invalid")


@pytest.mark.parametrize(
    "query", ["?limit=0", "?limit=201", "?limit=x", "?state=DONE", "?run_id=1", "?colour=red"]
)
def test_a_wrong_query_is_400_and_named(query: str, api: Api) -> None:
    reply = api.operator.get(f"/tasks{query}")
    assert (reply.status, reply.type) == (400, "bad-query")
    assert reply.pointers == {"/" + query[1:].split("=", maxsplit=1)[0]}


@pytest.mark.parametrize("cursor", ["x", "", "W10", "WzEsMl0", "eyJhIjoxfQ", "%00", "é"])
def test_a_cursor_that_is_none_of_ours_is_400(cursor: str, api: Api) -> None:
    for path in ("/tasks", "/runs", "/queues"):
        reply = api.operator.get(f"{path}?cursor={cursor}")
        assert (reply.status, reply.type) == (400, "bad-query")
        assert reply.pointers == {"/cursor"}


def test_a_parameter_that_stands_twice_is_refused(api: Api) -> None:
    assert api.operator.get("/tasks?state=READY&state=FAILED").pointers == {"/state"}


def test_a_route_without_parameters_takes_none(api: Api) -> None:
    assert api.operator.get("/queues/q?verbose=1").pointers == {"/verbose"}


@pytest.mark.parametrize(
    "path", ["/tasks/x", "/tasks/%00", "/runs/..;", "/attempts/0/renew", "/tasks/1/explain"]
)
def test_an_id_that_is_none_names_nothing(path: str, api: Api) -> None:
    method = "POST" if path.endswith("renew") else "GET"
    caller = api.worker if method == "POST" else api.operator
    claim = {"task_id": "0" * 32, "attempt_id": "0" * 32}
    body = {
        "fence": {**claim, "scheduler_epoch": 1, "claim_generation": 1, "cancel_generation": 0},
        "owner": "w",
    }
    assert caller.send(method, path, body if method == "POST" else None).status == 404


def test_a_slot_that_nobody_registered_is_told_by_name(api: Api) -> None:
    reply = submit_nodes(api, node("a", slots={"mail": "nowhere"}))
    assert invalid(reply) == {"/nodes/0/slots/mail"}
    assert "nowhere" in reply.body["errors"][0]["detail"]


def test_a_single_task_is_told_its_faults_without_the_list_it_never_sent(api: Api) -> None:
    body = {"queue": "q", "kind": "k", "input": 1, "slots": {"mail": "nowhere"}}
    assert invalid(api.operator.keyed("/tasks", body)) == {"/slots/mail"}


class TestOfAnAttempt:
    """The world has a claim here, so that there is something to leave untouched."""

    @pytest.fixture
    def claim(self, api: Api, _nothing_is_written: None) -> dict[str, Any]:
        return {
            "fence": {
                "task_id": "01900000-0000-7000-8000-000000000001",
                "attempt_id": "01900000-0000-7000-8000-000000000002",
                "scheduler_epoch": 1,
                "claim_generation": 1,
                "cancel_generation": 0,
            },
            "input_digest": "sha256:" + "0" * 64,
        }

    @pytest.mark.parametrize("verb", ["renew", "stage", "commit", "fail", "release"])
    def test_a_missing_fence_is_428(self, verb: str, api: Api, claim: dict[str, Any]) -> None:
        reply = api.worker.post(attempt_path(claim, verb), {"owner": "w"})
        assert (reply.status, reply.type, reply.outcome) == (428, "fence-missing", "FENCE_MISSING")
        assert reply.pointers == {"/fence"}

    @pytest.mark.parametrize(
        "field",
        ["task_id", "attempt_id", "scheduler_epoch", "claim_generation", "cancel_generation"],
    )
    def test_a_fence_without_one_of_its_fields_is_428(
        self, field: str, api: Api, claim: dict[str, Any]
    ) -> None:
        fence = {name: value for name, value in claim["fence"].items() if name != field}
        reply = api.worker.post(attempt_path(claim, "release"), {"fence": fence})
        assert (reply.status, reply.pointers) == (428, {f"/fence/{field}"})

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("scheduler_epoch", -1),
            ("claim_generation", "1"),
            ("cancel_generation", 1.5),
            ("scheduler_epoch", 2**53),
        ],
    )
    def test_a_fence_of_wrong_types_is_422(
        self, field: str, value: Any, api: Api, claim: dict[str, Any]
    ) -> None:
        fence = {**claim["fence"], field: value}
        assert invalid(api.worker.post(attempt_path(claim, "release"), {"fence": fence})) == {
            f"/fence/{field}"
        }

    def test_a_blob_without_a_whole_fence_header_is_428_and_with_nonsense_400(
        self, api: Api, claim: dict[str, Any]
    ) -> None:
        path = attempt_path(claim, "blobs/b")
        assert api.worker.send("PUT", path, raw=b"x").status == 428
        assert api.worker.send("PUT", path, raw=b"x", Claim_Fence="{}").status == 428
        assert api.worker.send("PUT", path, raw=b"x", Claim_Fence="nonsense").type == "bad-header"
        wrong = json.dumps({**claim["fence"], "claim_generation": -1})
        assert api.worker.send("PUT", path, raw=b"x", Claim_Fence=wrong).pointers == {
            "/claim_generation"
        }

    @pytest.mark.parametrize(
        "usage",
        [
            {"input_tokens": -1},
            {"cost_usd": -0.1},
            {"compute_seconds": "1"},
            {"tokens": 1},
            {"output_tokens": 2**60},
        ],
    )
    def test_usage_that_makes_no_sense_is_refused(
        self, usage: Any, api: Api, claim: dict[str, Any]
    ) -> None:
        (name,) = usage
        reply = api.worker.post(attempt_path(claim, "commit"), commit_body(claim, usage=usage))
        assert invalid(reply) == {f"/usage/{name}"}

    @pytest.mark.parametrize("digest", ["", "sha256:0", "sha256:" + "G" * 64, "md5:" + "0" * 32, 5])
    def test_a_digest_of_another_form_is_refused(
        self, digest: Any, api: Api, claim: dict[str, Any]
    ) -> None:
        body = {**commit_body(claim), "input_digest": digest}
        assert invalid(api.worker.post(attempt_path(claim, "commit"), body)) == {"/input_digest"}
