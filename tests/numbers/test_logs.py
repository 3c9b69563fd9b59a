"""The log of a real server: one object a line, ids and outcomes in it, and nothing that is somebody's own."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.contrib.auth.models import User

from coordinator.site import jobs
from coordinator.site.logs import logging_settings
from tenure import Claim, Worker
from tests import world
from tests.api.test_access import requests
from tests.sdk.conftest import Site
from tests.sdk.served import Served

pytestmark = pytest.mark.django_db(transaction=True)

SECRET = "open-sesame-4711"


class Logged:
    """A server, and the log that it wrote."""

    def __init__(self, site: Site, log: Path) -> None:
        self.site = site
        self._log = log
        self._http = httpx.Client(base_url=site.url, timeout=30)

    @property
    def text(self) -> str:
        return self._log.read_text()

    def lines(self, **wanted: Any) -> list[dict[str, Any]]:
        told = [json.loads(line) for line in self.text.splitlines()]
        return [
            line for line in told if all(line.get(key) == value for key, value in wanted.items())
        ]

    def send(
        self, method: str, path: str, body: Any = None, *, token: str | None = None, **headers: str
    ) -> httpx.Response:
        sent = {
            "Authorization": f"Bearer {token or self.site.token}",
            "X-Claim-Contract": "claim.v1",
        }
        return self._http.request(method, path, json=body, headers=sent | headers)

    def close(self) -> None:
        self._http.close()


@pytest.fixture
def logged(
    transactional_db: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Logged]:
    monkeypatch.setenv("TENURE_LOG_LEVEL", "INFO")
    monkeypatch.setenv("TENURE_LOG_FORMAT", "json")
    server = Served(tmp_path / "web.log")
    server.start()
    site = Site(server.url, "q", "")
    world.queue(name="q")
    site.token = site.token_for("work", "submit", "gate")
    made = Logged(site, tmp_path / "web.log")
    yield made
    made.close()
    server.stop()


def test_a_call_is_one_line_with_who_asked_for_what_and_what_came_of_it(logged: Logged) -> None:
    (task_id,) = logged.site.submit()
    body = {"scheduler_epoch": 1, "owner": SECRET}
    key = {"Idempotency-Key": "k" * 16, "X-Request-Id": "request-0001"}
    claims = logged.send("POST", "/api/v1/queues/q/claims", body, **key).json()["claims"]
    (line,) = logged.lines(request_id="request-0001")
    assert line["event"] == "request"
    assert line["operation"] == "claim_tasks"
    assert line["route"] == "api/v1/queues/<str:queue>/claims"
    assert line["queue"] == "q"
    assert line["caller"].startswith("worker:")
    assert line["caller_id"] == int(line["caller"].partition("#")[2])
    assert (line["status"], line["granted"], line["task_id"]) == (200, 1, task_id)
    assert line["attempt_id"] == claims[0]["fence"]["attempt_id"]
    assert line["ms"] > 0


def test_a_refusal_is_told_with_its_reason(logged: Logged) -> None:
    logged.site.submit()
    body = {"scheduler_epoch": 7, "owner": "w"}
    key = {"Idempotency-Key": "k" * 16, "X-Request-Id": "request-0002"}
    assert logged.send("POST", "/api/v1/queues/q/claims", body, **key).status_code == 409
    (line,) = logged.lines(request_id="request-0002")
    assert (line["outcome"], line["reason"]) == ("FENCED", "AHEAD")


def test_a_batch_is_told_with_how_often_each_outcome(logged: Logged) -> None:
    logged.site.submit(2)
    body = {"scheduler_epoch": 1, "owner": "w", "limit": 2}
    key = {"Idempotency-Key": "k" * 16}
    claims = logged.send("POST", "/api/v1/queues/q/claims", body, **key).json()["claims"]
    commits = [
        {"fence": claim["fence"], "input_digest": claim["input_digest"], "result": 1}
        for claim in claims
    ]
    commits[1]["fence"] = commits[1]["fence"] | {"claim_generation": 9}
    logged.send(
        "POST", "/api/v1/queues/q/commits", {"commits": commits}, **{"X-Request-Id": "request-0003"}
    )
    (line,) = logged.lines(request_id="request-0003")
    assert (line["items"], line["outcomes"]) == (2, {"COMMITTED": 1, "FENCED": 1})
    logged.send(
        "POST",
        "/api/v1/queues/q/commits",
        {"commits": commits[:1]},
        **{"X-Request-Id": "request-0004"},
    )
    (line,) = logged.lines(request_id="request-0004")
    assert (line["items"], line["attempt_id"]) == (1, claims[0]["fence"]["attempt_id"])


def test_nothing_that_is_somebodys_own_is_in_the_log_whatever_is_called(logged: Logged) -> None:
    site = logged.site
    admin = site.operator_token()
    for body in ({"secret": SECRET}, {"reason": SECRET, "input": SECRET, "name": SECRET}, [SECRET]):
        for method, path in requests().values():
            for token in (site.token, admin):
                sent = None if method == "GET" else body
                logged.send(
                    method, f"/api/v1{path}", sent, token=token, **{"Idempotency-Key": SECRET}
                )
    run_a_task(logged)
    doors(logged, admin)
    text = logged.text
    assert len(logged.lines(event="request")) > 200
    for secret in (SECRET, site.token, admin, "tnr_w_", "tnr_o_"):
        assert secret not in text, next(line for line in text.splitlines() if secret in line)


def everything() -> dict[str, tuple[str, str]]:
    """Method and path of each operation; none waits."""
    return {
        name: (method, f"{path}?wait_seconds=0" if path.endswith("/hint") else path)
        for name, (method, path) in requests().items()
    }


def run_a_task(logged: Logged) -> None:
    """What a worker's own words get into: inputs, results, blobs, memory, errors, payloads, receipts."""
    site = logged.site
    world.downstream(name="there", guarantee="CONDITIONAL_WRITE")
    with site.client() as client:
        client.submit_task(
            queue="q", kind="work", input={SECRET: SECRET}, slots={"out": "there"},
            serial_key=SECRET,
        )  # fmt: skip
        client.submit_task(queue="q", kind="fail", input={"n": SECRET})
    worker = Worker(site.url, site.token, "q", ttl_seconds=5, owner=SECRET)

    @worker.handler("work")
    def work(claim: Claim) -> Any:
        claim.stage({"result": SECRET})
        fence = claim.fence.as_json()
        effects = f"/api/v1/attempts/{claim.attempt_id}/effects"
        body = {"fence": fence, "slot": "out", "downstream": "there", "payload": {"to": SECRET}}
        prepared = logged.send("POST", effects, body).json()
        effect_id = prepared["effect"]["effect_id"]
        key = {"Idempotency-Key": f"{SECRET}-{claim.attempt_id}"}
        digest = {"fence": fence, "payload_digest": prepared["effect"]["payload_digest"]}
        accepted = logged.send("POST", f"/api/v1/effects/{effect_id}/accept", digest, **key).json()
        said = {
            "fence": fence, "dispatch_id": accepted["dispatch_id"], "outcome": "COMMITTED", "receipt": {"r": SECRET},
        }  # fmt: skip
        logged.send("POST", f"/api/v1/effects/{effect_id}/report", said)
        logged.send("PUT", f"/api/v1/attempts/{claim.attempt_id}/blobs/{SECRET}", {"b": SECRET})
        logged.send("GET", f"/api/v1/memory/{SECRET}/{SECRET}")
        return {"result": SECRET}

    @worker.handler("fail")
    def fail(claim: Claim) -> Any:
        raise ValueError(f"{SECRET} was wrong")

    logging.getLogger("tenure").disabled = True  # the worker's own log is the worker's
    try:
        worker.run(until_empty=True)
    finally:
        logging.getLogger("tenure").disabled = False
    assert logged.lines(operation="report_effect", status=200)


def doors(logged: Logged, admin: str) -> None:
    """Words in places where none belong: paths, queries, headers, forms."""
    made_up = f"tnr_w_{SECRET}"
    for path in (
        f"/api/v1/tasks/{admin}", f"/api/v1/tasks/{SECRET}", f"/api/v1/tasks?q={SECRET}", f"/{admin}",
        f"/api/v1/{admin}", f"/api/v1/me?access_token={admin}", f"/api/v1/queues/{admin}",
    ):  # fmt: skip
        logged.send("GET", path)
    logged.send("GET", "/api/v1/me", token=made_up)
    logged.send("GET", "/api/v1/me", **{"X-Request-Id": f"{admin}"[:64], "User-Agent": SECRET})
    logged.send("GET", "/api/v1/me", Cookie=f"tenure_session={SECRET}")
    User.objects.create_user("alice", password=SECRET)
    httpx.post(
        f"{logged.site.url}/sign-in", data={"username": "alice", "password": SECRET}, timeout=60
    )


def as_json(record: logging.LogRecord) -> str:
    settings = logging_settings(as_json=True, level="INFO")["formatters"]["lines"]
    kind = settings.pop("()")
    return str(kind(**settings).format(record))


def test_an_exception_is_told_by_its_type_and_place_without_its_words() -> None:
    try:
        try:
            raise KeyError(SECRET)
        except KeyError as cause:
            raise ValueError(f"Key (input)=({SECRET}) already exists") from cause
    except ValueError as error:
        told = (type(error), error, error.__traceback__)
    record = logging.LogRecord("coordinator.x", logging.ERROR, __file__, 1, "failed", None, told)
    line = as_json(record)
    assert SECRET not in line
    outer, inner = json.loads(line)["exception"]
    assert (outer["type"], inner["type"]) == ("ValueError", "KeyError")
    assert "test_logs.py" in outer["raised"][-1]


def test_what_looks_like_a_token_is_cut_wherever_it_turns_up() -> None:
    record = logging.LogRecord("x", logging.ERROR, __file__, 1, f"odd: tnr_o_{SECRET}!", None, None)
    assert SECRET not in as_json(record)


class _Task:
    name = "coordinator.tasks.sweep"


def test_a_job_is_told_where_it_did_something_or_failed(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="tenure.jobs")
    for did in (0, 3):
        jobs._begin("job-1", _Task())
        jobs._end("job-1", state="SUCCESS", retval=did)
    jobs._begin("job-2", _Task())
    jobs._failed(exception=ValueError(SECRET))
    jobs._end("job-2", state="FAILURE", retval=None)
    told = [record.msg for record in caplog.records if record.name == "tenure.jobs"]
    assert [line["event"] for line in told if isinstance(line, dict)] == ["job", "job failed"]
    first = told[0]
    assert isinstance(first, dict)
    assert (first["job"], first["job_id"], first["did"]) == ("sweep", "job-1", 3)
