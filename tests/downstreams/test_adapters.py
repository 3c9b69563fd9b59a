"""What single adapters promise beyond the table: errors by name, what each answer proves, one transmission each."""

from __future__ import annotations

import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import psycopg
import pytest
from aiosmtpd.smtp import AuthResult
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from coordinator import digests as reference
from coordinator.services.effects import payload_digest as reference_digest
from tenure.digests import effect_id, payload_digest
from tenure.downstreams import (
    S3,
    Absent,
    Adapter,
    Call,
    ChatPost,
    DontKnow,
    EtagResource,
    GitRemote,
    Guarantee,
    Happened,
    Hints,
    HttpKey,
    McpTool,
    Refused,
    Reservation,
    Smtp,
    Sql,
    Unknown,
    hints_of,
    replay_with,
)
from tenure.downstreams.base import Present
from tenure.downstreams.git_process import Git
from tenure.errors import NotEncodable
from tests.downstreams import parts
from tests.downstreams.git_server import git
from tests.downstreams.mail import Mailbox
from tests.downstreams.parts import Part, again
from tests.downstreams.tools import Tools

DOCS = Path(__file__).resolve().parents[2] / "docs" / "downstreams.md"


# --- ids and digests ---------------------------------------------------------------------------------------------


def test_the_published_vectors_are_what_sdk_and_coordinator_compute() -> None:
    import json

    rows = [
        re.findall(r"`([^`]*)`", line)
        for line in DOCS.read_text().splitlines()
        if re.search(r"\| `(sha256:)?[0-9a-f]{64}` \|$", line)
    ]
    assert len(rows) >= 6
    for row in rows:
        if row[3].startswith("sha256:"):
            name, payload, condition = row[0], json.loads(row[1]), json.loads(row[2])
            assert reference_digest(name, payload, condition) == row[3]
            assert payload_digest(downstream=name, payload=payload, condition=condition) == row[3]
        else:
            for compute in (effect_id, reference.effect_id):
                assert compute(task_id=row[0], node_id=row[1], slot=row[2]) == row[3]


# --- bad input ---------------------------------------------------------------------------------------------------

MAIL = {"from": "a@example.org", "to": ["b@example.org"], "subject": "s", "text": "t"}
COMMIT = {
    "ref": "refs/heads/main",
    "message": "m",
    "author": {"name": "n", "email": "e"},
    "date": "2026-11-30T09:00:00Z",
    "files": {"a": {"text": "t"}},
}
OLD = {"old": None}
OBJECT = {"key": "k", "text": "t"}
NEW = {"if_none_match": "*"}
DOCUMENT = {"path": "/a", "body": {}}

BAD: list[tuple[str, Any, Any, str]] = [
    ("smtp", None, None, "/payload"),
    ("smtp", {**MAIL, "bcc": "x"}, None, "/payload/bcc"),
    ("smtp", {**MAIL, "from": ""}, None, "/payload/from"),
    ("smtp", {**MAIL, "to": "b@example.org"}, None, "/payload/to"),
    ("smtp", {**MAIL, "to": []}, None, "/payload/to"),
    ("smtp", {**MAIL, "to": ["x> RCPT TO:<y@example.org"]}, None, "/payload/to"),
    ("smtp", {**MAIL, "to": ["b@example.org\r\nDATA"]}, None, "/payload/to"),
    ("smtp", {**MAIL, "to": [f"{n}@example.org" for n in range(101)]}, None, "/payload/to"),
    ("smtp", {**MAIL, "subject": "s\r\nBcc: y@example.org"}, None, "/payload/subject"),
    ("smtp", {**MAIL, "text": 7}, None, "/payload/text"),
    ("smtp", MAIL, {"x": 1}, "/condition"),
    ("git", {**COMMIT, "ref": "main"}, OLD, "/payload/ref"),
    ("git", {**COMMIT, "ref": "refs/heads/a..b"}, OLD, "/payload/ref"),
    ("git", {**COMMIT, "ref": "refs/heads/a:refs/heads/b"}, OLD, "/payload/ref"),
    ("git", {**COMMIT, "author": "me"}, OLD, "/payload/author"),
    ("git", {**COMMIT, "date": "today"}, OLD, "/payload/date"),
    ("git", {**COMMIT, "date": "2026-11-30T09:00:00"}, OLD, "/payload/date"),
    ("git", {**COMMIT, "files": {}}, OLD, "/payload/files"),
    ("git", {**COMMIT, "files": {"../a": {"text": ""}}}, OLD, "/payload/files/../a"),
    ("git", {**COMMIT, "files": {"/a": {"text": ""}}}, OLD, "/payload/files//a"),
    (
        "git",
        {**COMMIT, "files": {".GIT/hooks/x": {"text": ""}}},
        OLD,
        "/payload/files/.GIT/hooks/x",
    ),
    ("git", {**COMMIT, "files": {"a": {"base64": "?"}}}, OLD, "/payload/files/a/base64"),
    ("git", {**COMMIT, "files": {"a": "text"}}, OLD, "/payload/files/a"),
    ("git", COMMIT, None, "/condition"),
    ("git", COMMIT, {}, "/condition/old"),
    ("git", COMMIT, {"old": "abc1234"}, "/condition/old"),
    ("git", COMMIT, {"old": "HEAD"}, "/condition/old"),
    ("s3", {"text": "t"}, NEW, "/payload/key"),
    ("s3", {"key": "k"}, NEW, "/payload"),
    ("s3", {**OBJECT, "base64": "eA=="}, NEW, "/payload"),
    ("s3", OBJECT, None, "/condition"),
    ("s3", OBJECT, {}, "/condition/"),
    ("s3", OBJECT, {"if_match": "x", "if_none_match": "*"}, "/condition/"),
    ("s3", OBJECT, {"if_none_match": "x"}, "/condition/if_none_match"),
    ("etag", {**DOCUMENT, "path": "a"}, NEW, "/payload/path"),
    ("etag", {**DOCUMENT, "body": []}, NEW, "/payload/body"),
    ("etag", {**DOCUMENT, "body": {"tenure_effect": "x"}}, NEW, "/payload/body/tenure_effect"),
    ("etag", DOCUMENT, {"if_match": 'W/"1"'}, "/condition/if_match"),
    ("etag", DOCUMENT, {"if_match": "1"}, "/condition/if_match"),
    ("chat", {"channel": "c"}, None, "/payload/text"),
    ("chat", {"channel": "c", "text": "t"}, {"x": 1}, "/condition"),
    ("mcp", {"tool": "pay"}, None, "/payload/arguments"),
    ("mcp", {"tool": "", "arguments": {}}, None, "/payload/tool"),
    ("http", {"x": float("nan")}, None, "/payload/x"),
    ("http", {}, ["\ud800"], "/condition/0"),
    ("chat", {"channel": "c", "text": "\udc80"}, None, "/payload/text"),
    ("reservation", {}, {"x": 1}, "/condition"),
    ("sql", {"x": 2**60}, None, "/payload/x"),
]


def _adapters() -> dict[str, Adapter]:
    nowhere = "http://127.0.0.1:9"
    return {
        "smtp": Smtp("127.0.0.1", 9),
        "git": GitRemote(nowhere),
        "s3": S3("b", endpoint_url=nowhere, region_name="us-east-1"),
        "http": HttpKey(nowhere),
        "etag": EtagResource(nowhere),
        "reservation": Reservation(nowhere),
        "chat": ChatPost(nowhere, look_up_url=nowhere + "/{key}"),
        "mcp": McpTool(nowhere),
        "sql": Sql("", lambda cursor, payload: None),
    }


def test_what_cannot_be_sent_is_refused_by_the_name_of_its_field() -> None:
    adapters = _adapters()
    wrong = []
    for kind, payload, condition, pointer in BAD:
        try:
            adapters[kind].check(payload, condition)
        except NotEncodable as error:
            if error.pointer != pointer:
                wrong.append((kind, pointer, error.pointer))
        else:
            wrong.append((kind, pointer, "passed"))
    assert wrong == []


def test_every_adapter_says_what_it_cannot_promise() -> None:
    for kind, adapter in _adapters().items():
        assert adapter.kind == kind
        assert len(adapter.limits) > 60


@pytest.mark.parametrize("make", [HttpKey, ChatPost])
def test_a_look_up_address_without_a_place_for_the_key_is_refused(make: Any) -> None:
    with pytest.raises(ValueError, match="key"):
        make("http://x", look_up_url="http://x/all")


# --- what an answer proves ---------------------------------------------------------------------------------------


@contextmanager
def answering(answer: Callable[[socket.socket], None]) -> Iterator[tuple[str, list[bytes]]]:
    """A server that says the same to everybody, once each, and keeps what it was sent."""
    seen: list[bytes] = []
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                line, _ = listener.accept()
            except OSError:
                return
            with line:
                seen.append(line.recv(65_536))
                try:
                    answer(line)
                    line.shutdown(socket.SHUT_WR)
                    line.recv(65_536)
                except OSError:
                    continue

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", seen
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
        listener.close()


def _status(code: int, *headers: str) -> Callable[[socket.socket], None]:
    head = "".join(f"{line}\r\n" for line in headers)
    text = f"HTTP/1.1 {code} Said\r\n{head}Content-Length: 2\r\nConnection: close\r\n\r\n{{}}"
    return lambda line: line.sendall(text.encode())


ANSWERS = {
    200: Happened,
    201: Happened,
    202: Unknown,  # it says itself that it promises nothing
    301: Unknown,
    400: Refused,
    401: Refused,
    403: Refused,
    404: Refused,
    408: Unknown,
    409: Unknown,
    412: Unknown,
    422: Refused,
    423: Unknown,
    425: Unknown,
    429: Refused,
    500: Unknown,
    502: Unknown,
    503: Unknown,
    504: Unknown,
}


def _call(payload: Any, condition: Any = None, seconds: float = 30) -> Call:
    part = Part(adapter=HttpKey("http://x"), relay=None, payload=payload, condition=condition)  # type: ignore[arg-type]
    return part.call(seconds=seconds)


@pytest.mark.parametrize("code", list(ANSWERS))
def test_each_answer_proves_so_much_and_is_asked_for_once(code: int) -> None:
    with answering(_status(code, "Retry-After: 0", "Location: /elsewhere")) as (url, seen):
        sent = HttpKey(url).send(_call({"amount": 20}))
        assert isinstance(sent, ANSWERS[code]), sent
        assert len(seen) == 1
        key = seen[0].decode().lower()
        for header in ("idempotency-key", "tenure-dispatch", "tenure-fencing-token"):
            assert header in key


@pytest.mark.parametrize("code", [409, 412, 500, 503, 400, 403])
def test_the_object_stores_client_sends_once(code: int) -> None:
    with answering(_status(code)) as (url, seen):
        store = S3(
            "b",
            endpoint_url=url,
            region_name="us-east-1",
            aws_access_key_id="x",
            aws_secret_access_key="x",
        )
        sent = store.send(_call(OBJECT, NEW))
        assert isinstance(sent, Refused if code in {400, 403} else Unknown), sent
        assert len(seen) == 1


def test_an_answer_that_drips_past_the_deadline_is_unknown() -> None:
    def drip(line: socket.socket) -> None:
        line.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        while True:
            line.sendall(b"x")
            time.sleep(0.05)

    with answering(drip) as (url, _):
        sent = HttpKey(url).send(_call({}, seconds=0.5))
    assert isinstance(sent, Unknown), sent


def test_an_answer_without_end_is_unknown_and_not_kept() -> None:
    def pour(line: socket.socket) -> None:
        line.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
        while True:
            line.sendall(b"x" * 65_536)

    with answering(pour) as (url, _):
        sent = HttpKey(url).send(_call({}))
    assert isinstance(sent, Unknown), sent


def test_a_long_answer_is_named_by_its_digest() -> None:
    body = b'"' + b"x" * 20_000 + b'"'

    def say(line: socket.socket) -> None:
        line.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)

    with answering(say) as (url, _):
        sent = HttpKey(url).send(_call({}))
    assert isinstance(sent, Happened)
    assert sent.receipt["body_bytes"] == len(body)
    assert sent.receipt["body_digest"] == reference.sha256(body)


@pytest.mark.parametrize("code", [302, 401, 403, 410, 429, 500, 503])
def test_a_look_up_that_fails_settles_nothing(code: int) -> None:
    call = _call({})
    with answering(_status(code)) as (url, _):
        found: list[Any] = [
            HttpKey(url, look_up_url=url + "/{key}").look_up(call, deadline=call.deadline),
            Reservation(url).look_up(call, deadline=call.deadline),
            ChatPost(url, look_up_url=url + "/{key}").look_up(call, deadline=call.deadline),
            EtagResource(url).look_up(_call(DOCUMENT, NEW), deadline=call.deadline),
        ]
    assert {type(one) for one in found} == {DontKnow}


def test_a_look_up_answered_with_something_else_settles_nothing() -> None:
    call = _call({})
    with answering(_status(200)) as (url, _):
        assert isinstance(Reservation(url).look_up(call, deadline=call.deadline), DontKnow)
        chat = ChatPost(url, look_up_url=url + "/{key}")
        assert isinstance(chat.look_up(call, deadline=call.deadline), DontKnow)


# --- conditions --------------------------------------------------------------------------------------------------


def test_a_document_that_somebody_else_changed_is_never_taken_for_ours() -> None:
    with parts.etag() as part:
        part.log["world"].documents["a"] = ({"title": "theirs"}, '"v7"')
        call = part.call()
        assert isinstance(part.adapter.send(call), Unknown)
        assert isinstance(part.adapter.look_up(call, deadline=call.deadline), DontKnow)
        assert part.count(call) == 0


def test_an_object_that_somebody_else_wrote_is_never_taken_for_ours() -> None:
    with parts.s3() as part:
        first, second = part.call(), part.call()
        assert isinstance(part.adapter.send(first), Happened)
        assert isinstance(part.adapter.send(second), Unknown)
        assert isinstance(part.adapter.look_up(second, deadline=second.deadline), DontKnow)
        assert isinstance(part.adapter.look_up(first, deadline=first.deadline), Happened)
        assert part.count(second) == 0


@pytest.mark.parametrize("missing", ["bucket", "key"])
def test_a_bucket_that_is_missing_is_no_object_that_is_missing(missing: str) -> None:
    """A HEAD of either is the same 404; only one of them says that the call has not arrived."""
    with parts.s3() as part:
        call = part.call()
        if missing == "bucket":
            assert isinstance(part.adapter.send(call), Happened)
            part.reject()
        found = part.adapter.look_up(call, deadline=call.deadline)
        present = part.adapter.present(call, deadline=call.deadline)
        if missing == "bucket":
            assert isinstance(found, DontKnow)
            assert "NoSuchBucket" in found.detail
            assert isinstance(present, DontKnow)
            assert "NoSuchBucket" in present.detail
            part.allow()
            again = part.adapter.look_up(call, deadline=call.deadline)
            assert isinstance(again, Happened)
        else:
            assert isinstance(found, Absent)
            assert isinstance(present, Present)
            assert (present.there, present.condition_holds) == (None, True)


def test_an_object_is_changed_only_from_the_version_that_was_seen() -> None:
    with parts.s3() as part:
        first = part.call()
        sent = part.adapter.send(first)
        assert isinstance(sent, Happened)
        change = part.call(condition={"if_match": sent.etag})
        assert isinstance(part.adapter.look_up(change, deadline=change.deadline), Absent)
        assert isinstance(part.adapter.send(change), Happened)
        # The same content again has the same ETag there: the object's own memory tells them apart.
        late = part.call(condition={"if_match": "0" * 32})
        assert isinstance(part.adapter.send(late), Unknown)
        assert part.count(late) == 0


# --- git ---------------------------------------------------------------------------------------------------------


def _other_commit(part: Part, onto: str) -> str:
    bare = str(part.log["bare"])
    tree = git("-C", bare, "rev-parse", f"{onto}^{{tree}}")
    who = ["-c", "user.name=y", "-c", "user.email=y@example.org"]
    made = git("-C", bare, *who, "commit-tree", tree, "-p", onto, "-m", "theirs")
    git("-C", bare, "update-ref", "refs/heads/main", made)
    return made


def test_the_commit_is_the_same_whoever_makes_it(tmp_path: Path) -> None:
    with parts.git_remote() as part:
        call = part.call()
        sent = part.adapter.send(call)
        assert isinstance(sent, Happened), sent
        elsewhere = GitRemote(
            f"{part.relay.url}/repo.git",
            folder=tmp_path / "other.git",
            env={"GIT_AUTHOR_NAME": "somebody else", "GIT_COMMITTER_DATE": "@1 +0000"},
        )
        found = elsewhere.look_up(call, deadline=call.deadline)
        assert isinstance(found, Happened), found
        assert found.receipt == sent.receipt
        bare = str(part.log["bare"])
        assert git("-C", bare, "rev-parse", "main") == sent.receipt["commit"]
        assert git("-C", bare, "show", "main:report/a b.md") == "# Report"
        assert git("-C", bare, "log", "-1", "--format=%an %ae %at") == (
            "Fleet fleet@example.org 1796029200"
        )


def test_a_commit_that_others_built_on_has_happened() -> None:
    with parts.git_remote() as part:
        call = part.call()
        sent = part.adapter.send(call)
        assert isinstance(sent, Happened)
        _other_commit(part, sent.receipt["commit"])
        assert isinstance(part.adapter.look_up(call, deadline=call.deadline), Happened)
        assert isinstance(part.adapter.send(again(call)), Unknown)
        assert part.count(call) == 1


def test_a_branch_that_went_on_without_us_takes_nothing() -> None:
    with parts.git_remote() as part:
        call = part.call()
        _other_commit(part, call.condition["old"])
        sent = part.adapter.send(call)
        assert isinstance(sent, Unknown), sent
        assert isinstance(part.adapter.look_up(call, deadline=call.deadline), Absent)
        assert part.count(call) == 0


def test_a_branch_that_was_rewritten_tells_nothing() -> None:
    with parts.git_remote() as part:
        call = part.call()
        bare = str(part.log["bare"])
        tree = git("-C", bare, "rev-parse", "main^{tree}")
        who = ["-c", "user.name=y", "-c", "user.email=y@example.org"]
        root = git("-C", bare, *who, "commit-tree", tree, "-m", "another beginning")
        git("-C", bare, "update-ref", "refs/heads/main", root)
        assert isinstance(part.adapter.look_up(call, deadline=call.deadline), DontKnow)
        git("-C", bare, "update-ref", "-d", "refs/heads/main")
        assert isinstance(part.adapter.look_up(call, deadline=call.deadline), DontKnow)


def test_a_branch_that_must_not_exist_is_made_once() -> None:
    with parts.git_remote() as part:
        payload = {**part.payload, "ref": "refs/heads/reports", "files": {"a": {"text": "b"}}}
        call = part.call(payload=payload, condition={"old": None})
        assert isinstance(part.adapter.look_up(call, deadline=call.deadline), Absent)
        assert isinstance(part.adapter.send(call), Happened)
        other = part.call(payload=payload, condition={"old": None})
        assert isinstance(part.adapter.send(other), Unknown)
        assert isinstance(part.adapter.look_up(other, deadline=other.deadline), DontKnow)
        assert isinstance(part.adapter, GitRemote)
        assert part.adapter.tip("refs/heads/reports", deadline=call.deadline) is not None
        assert part.adapter.tip("refs/heads/none", deadline=call.deadline) is None


def test_without_git_nothing_was_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    call = _call(COMMIT, OLD)
    sent = GitRemote("http://127.0.0.1:9", folder=tmp_path / "x.git").send(call)
    assert isinstance(sent, Refused)
    assert not sent.sent
    assert "git is not installed" in sent.detail


def test_git_and_its_children_end_at_the_deadline(tmp_path: Path) -> None:
    from tenure.downstreams.git_process import GitTimedOut

    runner = Git(tmp_path / "x.git", {"GIT_SSH_COMMAND": "sh -c 'sleep 60; true'"})
    runner.init()
    with pytest.raises(GitTimedOut):
        runner.run("ls-remote", "ssh://127.0.0.1/x", deadline=time.monotonic() + 0.5)


# --- mail --------------------------------------------------------------------------------------------------------


def test_one_refused_recipient_means_that_nobody_gets_it() -> None:
    with parts.smtp() as part:
        box = part.log["box"]
        box.reject_recipient = "nobody@example.org"
        payload = {**part.payload, "to": ["someone@example.org", "nobody@example.org"]}
        call = part.call(payload=payload)
        sent = part.adapter.send(call)
        assert isinstance(sent, Refused), sent
        assert "550" in sent.detail
        assert box.messages == []


def test_a_message_arrives_as_it_was_bound() -> None:
    with parts.smtp() as part:
        payload = {**part.payload, "cc": ["c@example.org"], "html": "<p>Käse</p>"}
        call = part.call(payload=payload)
        sent = part.adapter.send(call)
        assert isinstance(sent, Happened), sent
        [message] = part.log["box"].messages
        plain, html = message.get_payload()
        assert plain.get_payload(decode=True).decode().splitlines() == [
            ".a dot at the start",
            "and an end",
        ]
        assert html.get_payload(decode=True).decode().strip() == "<p>Käse</p>"
        assert message["Message-ID"] == f"<{call.effect_id}@example.org>"
        assert sent.receipt["message_id"] == message["Message-ID"]
        assert part.log["box"].recipients == [["someone@example.org", "c@example.org"]]


@pytest.mark.parametrize(
    ("says", "proves"),
    [("451 later", Refused), ("550 no", Refused), ("421 closing", Unknown)],
)
def test_what_a_mail_server_says_to_the_message(says: str, proves: type[Any]) -> None:
    with parts.smtp() as part:
        part.log["box"].reject = says
        call = part.call()
        assert isinstance(part.adapter.send(call), proves)
        assert part.count(call) == 0


@contextmanager
def _certified(folder: Path) -> Iterator[tuple[ssl.SSLContext, ssl.SSLContext]]:
    """A server's context, and a client's that trusts it, for 127.0.0.1."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "mail of a test")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False
        )
        .sign(key, hashes.SHA256())
    )
    pem = folder / "mail.pem"
    pem.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + certificate.public_bytes(serialization.Encoding.PEM)
    )
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(pem)
    yield server, ssl.create_default_context(cafile=str(pem))


def test_mail_goes_through_tls_to_a_server_that_is_known_and_asks_for_a_password(
    tmp_path: Path,
) -> None:
    def knows(server: Any, session: Any, envelope: Any, mechanism: str, data: Any) -> AuthResult:
        known = (data.login, data.password) == (b"fleet", b"secret")
        return AuthResult(success=known, handled=False)  # so that the server answers for itself

    with _certified(tmp_path) as (server, client):
        options = {
            "tls_context": server,
            "require_starttls": True,
            "authenticator": knows,
            "auth_required": True,
        }
        with Mailbox(**options) as box:
            right = Smtp(*box.address, starttls=True, tls=client, user="fleet", password="secret")
            strange = Smtp(*box.address, starttls=True, user="fleet", password="secret")
            wrong = Smtp(*box.address, starttls=True, tls=client, user="fleet", password="other")
            for adapter in (strange, wrong):
                sent = adapter.send(_call(MAIL))
                assert isinstance(sent, Refused), sent
                assert not sent.sent
            assert box.messages == []
            assert isinstance(right.send(_call(MAIL)), Happened)
            assert len(box.messages) == 1


# --- databases ---------------------------------------------------------------------------------------------------


def test_a_second_arrival_gets_the_first_receipt(database: dict[str, Any]) -> None:
    with parts.sql(database) as part:
        call = part.call()
        first = part.adapter.send(call)
        second = part.adapter.send(again(call))
        assert isinstance(first, Happened)
        assert second == first
        other = replace(again(call), payload_digest="sha256:" + "0" * 64)
        assert isinstance(part.adapter.send(other), Refused)
        assert isinstance(part.adapter.look_up(other, deadline=other.deadline), DontKnow)
        assert part.count(call) == 1


def test_two_at_the_same_instant_act_once(database: dict[str, Any]) -> None:
    with parts.sql(database) as part:
        call = part.call()
        answers: list[Any] = []
        threads = [
            threading.Thread(target=lambda: answers.append(part.adapter.send(call)))
            for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [type(answer) for answer in answers] == [Happened] * 8
        assert part.count(call) == 1


@pytest.mark.parametrize("fails", ["in between", "at the commit"])
def test_a_change_that_fails_leaves_nothing(database: dict[str, Any], fails: str) -> None:
    with parts.sql(database) as part:
        direct = part.log["direct"]
        direct.execute(
            "CREATE TABLE later (n int UNIQUE DEFERRABLE INITIALLY DEFERRED); INSERT INTO later VALUES (1)"
        )

        def apply(cursor: psycopg.Cursor[Any], payload: Any) -> Any:
            cursor.execute("INSERT INTO later VALUES (1)")
            if fails == "in between":
                raise RuntimeError("the handler's own code broke")
            return {"paid": True}

        assert isinstance(part.adapter, Sql)
        adapter = Sql(part.adapter._conninfo, apply)
        call = part.call()
        assert isinstance(adapter.send(call), Refused)
        assert isinstance(adapter.look_up(call, deadline=call.deadline), Absent)
        assert direct.execute("SELECT count(*) FROM later").fetchone() == (1,)


# --- tools -------------------------------------------------------------------------------------------------------


def test_a_tool_that_fails_may_have_acted() -> None:
    with parts.mcp_tool() as part:
        call = part.call(payload={"tool": "fail", "arguments": {}})
        assert isinstance(part.adapter.send(call), Unknown)
        assert part.count(call) == 1


def test_a_tool_that_is_not_there_has_not_acted() -> None:
    with parts.mcp_tool() as part:
        call = part.call(payload={"tool": "none", "arguments": {}})
        sent = part.adapter.send(call)
        assert not isinstance(sent, Happened), sent
        assert part.count(call) == 0


def test_a_tools_own_words_make_a_node_stricter_and_never_laxer() -> None:
    says_nothing, reads = Hints(), Hints(read_only=True)
    idempotent = Hints(idempotent=True, destructive=False)
    assert replay_with(says_nothing, registered="REPLAYABLE") == "NON_REPLAYABLE"
    assert replay_with(idempotent, registered="REPLAYABLE") == "REPLAYABLE"
    assert replay_with(idempotent, registered="NON_REPLAYABLE") == "NON_REPLAYABLE"
    assert replay_with(reads, registered="NON_REPLAYABLE") == "NON_REPLAYABLE"
    assert replay_with(reads, registered="NON_REPLAYABLE", vouched=True) == "READ_ONLY"
    assert Hints(idempotent=True, destructive=True).replay == "NON_REPLAYABLE"


def test_the_hints_are_read_from_a_real_server_and_from_json() -> None:
    import asyncio
    from concurrent.futures import ThreadPoolExecutor

    with (
        Tools() as tools,
        ThreadPoolExecutor(1) as own,
    ):  # a browser's driver may have a loop in ours
        found = own.submit(asyncio.run, tools.server.list_tools()).result()
    listed = {tool.name: tool for tool in found}
    assert hints_of(listed["pay"]) == Hints(idempotent=False, destructive=True)
    assert hints_of(listed["look"]) == Hints(read_only=True)
    assert hints_of(listed["fail"]) == Hints()
    assert hints_of({"annotations": {"readOnlyHint": "yes", "idempotentHint": True}}) == Hints(
        idempotent=True
    )


def test_guarantees_are_the_coordinators() -> None:
    from coordinator import states

    assert [str(one) for one in Guarantee] == [str(one) for one in states.Guarantee]


def test_a_tool_can_be_called_where_an_event_loop_already_runs() -> None:
    """A notebook, an agent's framework, a browser's driver: their thread has a loop of its own."""
    import asyncio
    from concurrent.futures import ThreadPoolExecutor

    async def within() -> Any:
        return part.adapter.send(call)

    with parts.mcp_tool() as part:
        call = part.call()
        with ThreadPoolExecutor(1) as elsewhere:  # this thread may have a browser driver's loop
            sent = elsewhere.submit(lambda: asyncio.run(within())).result()
        assert isinstance(sent, Happened), sent
        assert part.count(call) == 1
