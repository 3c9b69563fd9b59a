"""The gate: whoever comes late, twice, forged or with other bytes is refused by the tool itself (contract 8.5)."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import httpx
import pytest
from mcp.server import MCPServer
from mcp.server.mcpserver import Context

import tenure
from coordinator.models import Event
from tenure import Claim
from tenure.downstreams import Guarantee, HttpKey, McpTool, Refused, Smtp, Unknown
from tenure.downstreams.base import Call as Outgoing
from tenure.downstreams.base import Happened
from tenure.downstreams.headers import headers_of
from tenure.gate import Gate
from tenure.gate.asgi import AsgiGate
from tenure.gate.mcp import gated
from tenure.gate.wsgi import WsgiGate
from tests import world
from tests.downstreams.mail import Mailbox
from tests.downstreams.parts import BOUND_TO, Part
from tests.downstreams.relay import Fault, Relay
from tests.downstreams.stage import Stage
from tests.downstreams.tools import Paid, Web
from tests.sdk.conftest import Site


@dataclass
class Tool:
    """What stands behind the gate; it writes down everything that it does."""

    acted: list[str] = field(default_factory=list)
    status: int = 201

    def act(self, key: str) -> bytes:
        self.acted.append(key)
        return json.dumps({"done": len(self.acted)}).encode()


class _Quiet(WSGIRequestHandler):
    def log_message(self, *_: object) -> None:
        """Quiet."""


@contextmanager
def _wsgi(tool: Tool, gate: Gate) -> Iterator[tuple[str, int]]:
    def application(environ: dict[str, Any], start: Any) -> list[bytes]:
        environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        body = tool.act(environ["HTTP_IDEMPOTENCY_KEY"])
        start(f"{tool.status} Said", [("Content-Type", "application/json"), ("Tenure-Gate", "no")])
        return [body]

    with serving(WsgiGate(application, gate)) as address:
        yield address


@contextmanager
def serving(application: Any) -> Iterator[tuple[str, int]]:
    """A WSGI application on loopback."""
    server = make_server("127.0.0.1", 0, application, WSGIServer, _Quiet)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield "127.0.0.1", server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def _asgi(tool: Tool, gate: Gate) -> Iterator[tuple[str, int]]:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        headers = dict(scope["headers"])
        body = tool.act(headers[b"idempotency-key"].decode())
        start = {"type": "http.response.start", "status": tool.status}
        await send({**start, "headers": [(b"content-type", b"application/json")]})
        await send({"type": "http.response.body", "body": body})

    with Web(_only_http(AsgiGate(application, gate))) as web:
        yield web.address


def _only_http(application: Any) -> Any:
    async def serve(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await application(scope, receive, send)

    return serve


@contextmanager
def _mcp(tool: Tool, gate: Gate) -> Iterator[tuple[str, int]]:
    server = MCPServer("tools")

    @server.tool()
    @gated(gate)
    def pay(amount: float, ctx: Context[Any, Any], currency: str = "EUR") -> Paid:
        """Pay."""
        meta: Mapping[str, Any] = ctx.request_context.meta or {}
        tool.act(str(meta["tenure/idempotency-key"]))
        if tool.status != 201:
            raise RuntimeError("broke after it had acted")
        return Paid(payment=f"p{len(tool.acted)}")

    with Web(server.streamable_http_app(json_response=True, stateless_http=True)) as web:
        yield web.address


GATES = {"wsgi": _wsgi, "asgi": _asgi, "mcp": _mcp}


@dataclass
class Guarded:
    """A tool behind a gate behind a relay, and a stage for one effect at it."""

    tool: Tool
    stage: Stage
    relay: Relay
    kind: str

    @property
    def acted(self) -> int:
        return self.tool.acted.count(self.stage.effect.effect_id)

    def direct(self, call: Outgoing) -> Any:
        """The same call once more, as a network that doubles or a worker that wakes would bring it."""
        return self.stage.part.adapter.send(call)


@pytest.fixture(params=list(GATES))
def guarded(request: pytest.FixtureRequest, site: Site) -> Iterator[Guarded]:
    tool = Tool()
    with ExitStack() as stack:
        gate = stack.enter_context(Gate(site.url, site.token_for("gate"), downstream=BOUND_TO))
        address = stack.enter_context(GATES[request.param](tool, gate))
        is_mcp = request.param == "mcp"
        trigger = b'"name":"pay"' if is_mcp else b"POST /act"
        relay = stack.enter_context(Relay(address, trigger=trigger))
        adapter: Any
        if is_mcp:
            host = {"Host": f"127.0.0.1:{address[1]}"}
            adapter = McpTool(f"{relay.url}/mcp", guarantee=Guarantee.GATED, headers=host)
            payload: Any = {"tool": "pay", "arguments": {"amount": 20}}
        else:
            adapter = HttpKey(f"{relay.url}/act", guarantee=Guarantee.GATED)
            payload = {"amount": 20, "für": "Käse"}
        part = Part(adapter=adapter, relay=relay, payload=payload)
        part.count = lambda effect: tool.acted.count(effect.effect_id)
        yield Guarded(tool, Stage(site, part), relay, request.param)


def _keeping(guarded: Guarded, calls: list[Outgoing]) -> None:
    """Keep what is sent, so that it can be sent again later."""
    real = guarded.stage.part.adapter.send

    def send(call: Outgoing) -> Any:
        calls.append(call)
        return real(call)

    guarded.stage.part.adapter.send = send  # type: ignore[method-assign]


def test_a_permitted_call_passes_once(guarded: Guarded) -> None:
    guarded.stage.run()
    assert guarded.stage.state == "COMMITTED"
    assert guarded.acted == 1


def test_the_same_call_arriving_twice_acts_once(guarded: Guarded) -> None:
    guarded.relay.fault = Fault.DUPLICATE
    guarded.stage.run()
    assert guarded.stage.state == "COMMITTED"
    assert guarded.acted == 1


def test_a_lost_answer_is_known_by_the_gates_own_report(guarded: Guarded) -> None:
    guarded.relay.fault = Fault.DROP_REPLY
    guarded.stage.run()
    guarded.relay.fault = Fault.NONE
    if guarded.stage.state != "COMMITTED":  # the worker's own report may have come first
        guarded.stage.make_due()
        guarded.stage.run()
    assert guarded.acted == 1
    assert guarded.stage.state == "COMMITTED"
    assert guarded.stage.receipts[-1]
    assert guarded.stage.effect.state == "COMMITTED"
    assert guarded.stage.effect.dispatches == 1


def test_a_lost_request_has_not_happened_and_the_next_attempt_sends_it(guarded: Guarded) -> None:
    guarded.relay.fault = Fault.LOSE_REQUEST

    def once(claim: Claim) -> Any:
        if claim.attempt_number > 1:
            guarded.relay.fault = Fault.NONE
        return guarded.stage.perform(claim)

    guarded.stage.run(once)
    assert guarded.stage.effect.state == "PREPARED"
    guarded.stage.make_due()
    guarded.stage.run(once)
    assert guarded.stage.state == "COMMITTED"
    assert guarded.acted == 1
    assert guarded.stage.effect.dispatches == 2


def test_a_call_that_wakes_after_a_take_over_is_refused_by_the_tool(guarded: Guarded) -> None:
    """The worker froze between its permission and its call; no check of its own could have stopped it."""
    frozen, woken = threading.Event(), threading.Event()
    answers: list[Any] = []
    adapter = guarded.stage.part.adapter
    real = adapter.send

    def freeze(call: Outgoing) -> Any:
        if not frozen.is_set():
            frozen.set()
            assert woken.wait(60)
            answers.append(real(call))
            return answers[-1]
        return real(call)

    adapter.send = freeze  # type: ignore[method-assign]
    first = guarded.stage.worker(owner="A")
    thread = threading.Thread(target=first.run, kwargs={"until_empty": True})
    thread.start()
    assert frozen.wait(60)
    guarded.stage.site.lapse(guarded.stage.task_id)
    taken_over = guarded.stage.worker(owner="B")
    taken_over.run(until_empty=True)
    assert guarded.stage.state == "COMMITTED"
    assert guarded.acted == 1
    woken.set()
    thread.join()
    [answer] = answers
    assert isinstance(answer, Refused), answer
    assert guarded.acted == 1
    assert guarded.stage.effect.state == "COMMITTED"
    assert not guarded.stage.effect.duplicate_suspected


def test_a_call_of_a_cancelled_task_is_refused_by_the_tool(guarded: Guarded) -> None:
    sent: list[Any] = []
    real = guarded.stage.part.adapter.send

    def cancelled_first(call: Outgoing) -> Any:
        with guarded.stage.person() as person:
            person.cancel_task(guarded.stage.task_id, reason="not wanted any more")
        sent.append(real(call))
        return sent[-1]

    guarded.stage.part.adapter.send = cancelled_first  # type: ignore[method-assign]
    guarded.stage.run()
    assert isinstance(sent[0], Refused), sent
    assert guarded.acted == 0
    assert guarded.stage.state == "CANCELLED"
    assert isinstance(guarded.stage.errors[-1], tenure.Cancelled)


def test_a_call_of_an_older_epoch_is_refused_by_the_tool(guarded: Guarded) -> None:
    from coordinator.services.epochs import Bumped, bump_epoch

    sent: list[Any] = []
    real = guarded.stage.part.adapter.send

    def bumped_first(call: Outgoing) -> Any:
        if not sent:
            bumped = bump_epoch(
                queue=guarded.stage.site.queue,
                expected_epoch=1,
                reason="a rollback",
                actor=world.operator(),
            )
            assert isinstance(bumped, Bumped), bumped
        sent.append(real(call))
        return sent[-1]

    guarded.stage.part.adapter.send = bumped_first  # type: ignore[method-assign]
    guarded.stage.run()
    assert isinstance(sent[0], Refused), sent
    assert guarded.acted == len(sent) - 1
    assert guarded.acted <= 1


def test_the_very_same_call_later_is_unknown_to_the_worker_and_acts_no_more(
    guarded: Guarded,
) -> None:
    calls: list[Outgoing] = []
    _keeping(guarded, calls)

    def twice(claim: Claim) -> Any:
        receipt = guarded.stage.perform(claim)
        again = guarded.direct(calls[0])
        assert isinstance(again, Unknown), again
        return receipt

    guarded.stage.run(twice)
    assert guarded.stage.errors == []
    assert guarded.acted == 1


def test_other_bytes_and_a_forged_token_are_refused_and_recorded(guarded: Guarded) -> None:
    from dataclasses import replace

    answers: list[Any] = []
    real = guarded.stage.part.adapter.send

    def meddle(call: Outgoing) -> Any:
        payload = json.loads(json.dumps(call.payload).replace("20", "21"))
        answers.append(real(replace(call, payload=payload)))
        forged = call.fencing_token.rpartition(".")[0] + ".7"
        answers.append(real(replace(call, fencing_token=forged)))
        answers.append(real(replace(call, fencing_token="")))
        assert guarded.tool.acted == []
        return real(call)

    guarded.stage.part.adapter.send = meddle  # type: ignore[method-assign]
    guarded.stage.run()
    assert not any(isinstance(answer, Happened) for answer in answers), answers
    assert guarded.acted == 1
    assert guarded.stage.state == "COMMITTED"


def test_where_the_coordinator_does_not_answer_the_tool_does_not_act(site: Site) -> None:
    tool = Tool()
    with (
        Gate("http://127.0.0.1:9", "tnr_w_x_y", downstream=BOUND_TO) as gate,
        _wsgi(tool, gate) as address,
    ):
        answer = httpx.post(
            f"http://127.0.0.1:{address[1]}/act",
            json={},
            headers={
                "Idempotency-Key": "0" * 64,
                "Tenure-Dispatch": str(UUID(int=1)),
                "Tenure-Fencing-Token": "1.x.1.1",
            },
            timeout=30,
        )
    assert answer.status_code == 503
    assert answer.headers["Tenure-Gate"] == "UNREACHABLE"
    assert tool.acted == []


def test_a_workers_token_opens_no_gate(site: Site) -> None:
    tool = Tool()
    with Gate(site.url, site.token, downstream=BOUND_TO) as gate, _wsgi(tool, gate) as address:
        adapter = HttpKey(f"http://127.0.0.1:{address[1]}/act", guarantee=Guarantee.GATED)
        with Relay(address, trigger=b"POST") as relay:
            part = Part(adapter=adapter, relay=relay, payload={"amount": 20})
            part.count = lambda effect: len(tool.acted)
            stage = Stage(site, part)
            stage.worker().run(until_empty=True)
            assert tool.acted == []
            assert stage.state == "FAILED"
            assert stage.effect.state == "PREPARED"


def test_a_plain_read_and_a_call_without_a_pass(site: Site) -> None:
    tool = Tool()
    with (
        Gate(site.url, site.token_for("gate"), downstream=BOUND_TO) as gate,
        _wsgi(tool, gate) as address,
    ):
        url = f"http://127.0.0.1:{address[1]}/act"
        assert httpx.get(url, headers={"Idempotency-Key": "read"}).status_code == 201
        refused = httpx.post(url, json={})
        assert refused.status_code == 400
        assert refused.headers["Tenure-Gate"] == "MALFORMED"
        assert "Tenure-Dispatch" in refused.json()["detail"]
        too_long = httpx.post(url, content=b"x" * (1 << 20) + b"x")
        assert too_long.status_code == 413
    assert tool.acted == ["read"]


def test_mail_behind_the_gate_goes_out_once(site: Site) -> None:
    """A mailer of ours behind the gate makes mail replayable: no person is needed."""
    with Mailbox() as box, ExitStack() as stack:
        gate = stack.enter_context(Gate(site.url, site.token_for("gate"), downstream=BOUND_TO))
        smtp = Smtp(*box.address)

        def mailer(environ: dict[str, Any], start: Any) -> list[bytes]:
            sent = smtp.send(_as_call(environ))
            start("200 OK" if isinstance(sent, Happened) else "500 Failed", [])
            return [json.dumps(sent.receipt if isinstance(sent, Happened) else {}).encode()]

        address = stack.enter_context(serving(WsgiGate(mailer, gate)))
        relay = stack.enter_context(Relay(address, trigger=b"POST /"))
        payload = {
            "from": "fleet@example.org",
            "to": ["someone@example.org"],
            "subject": "Report",
            "text": "It is done.",
        }
        adapter = HttpKey(f"{relay.url}/", guarantee=Guarantee.GATED)
        part = Part(adapter=adapter, relay=relay, payload=payload)
        part.count = lambda effect: box.count(effect.effect_id)
        stage = Stage(site, part)
        relay.fault = Fault.DUPLICATE
        stage.run()
        assert stage.state == "COMMITTED"
        assert stage.performed == 1


def _as_call(environ: dict[str, Any]) -> Outgoing:
    """The message as the mailer would send it itself."""
    from datetime import UTC, datetime, timedelta
    from time import monotonic

    return Outgoing(
        effect_id=environ["HTTP_IDEMPOTENCY_KEY"],
        payload=json.loads(environ["wsgi.input"].read()),
        payload_digest=environ["HTTP_TENURE_PAYLOAD_DIGEST"],
        dispatch_id=environ["HTTP_TENURE_DISPATCH"],
        idempotency_key=environ["HTTP_IDEMPOTENCY_KEY"],
        fencing_token=environ["HTTP_TENURE_FENCING_TOKEN"],
        deadline=monotonic() + 10,
        deadline_at=datetime.now(UTC) + timedelta(seconds=10),
    )


def test_the_headers_of_a_call_are_plain_ascii(guarded: Guarded) -> None:
    call = guarded.stage.part.call(condition={"für": "Käse"})
    for name, value in headers_of(call).items():
        assert (name + value).isascii()


def test_every_turning_away_is_on_record(guarded: Guarded) -> None:
    calls: list[Outgoing] = []
    _keeping(guarded, calls)

    def twice(claim: Claim) -> Any:
        receipt = guarded.stage.perform(claim)
        guarded.direct(calls[0])
        return receipt

    guarded.stage.run(twice)
    refusals = Event.objects.filter(task_id=guarded.stage.task_id, refusal_key__isnull=False)
    assert refusals.filter(data__outcome="ALREADY_REDEEMED").exists(), list(
        refusals.values("kind", "data")
    )
