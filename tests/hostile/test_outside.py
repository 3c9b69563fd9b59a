"""What leads outside, under attack: the proxy before a tool, and documents that others open."""

import socket
import time
from typing import Any, Final

import pytest

from console.files import harmless
from coordinator.selectors.incident_markdown import _cell
from tenure.downstreams import Bound, Happened, HttpKey
from tenure.gate.egress import EgressProxy
from tests.downstreams.service import Service
from tests.downstreams.test_gate import serving

Answer = tuple[int, bytes]


def asked(address: tuple[str, int], target: str, *headers: str) -> Answer:
    """One GET with this very target, as no polite client would send it."""
    with socket.create_connection(address, timeout=30) as line:
        lines = [f"GET {target} HTTP/1.0", "Host: somewhere", *headers, "", ""]
        line.sendall("\r\n".join(lines).encode())
        told = b"".join(iter(lambda: line.recv(65_536), b""))
    return int(told.split()[1]), told


def test_a_proxy_asks_no_other_host_than_its_target() -> None:
    with Service() as target, Service() as other, serving(EgressProxy(target.url)) as address:
        elsewhere = other.url.removeprefix("http://")
        for path in (
            f"@{elsewhere}/log",
            f"http://{elsewhere}/log",
            f":1@{elsewhere}/log",
            f".{elsewhere}/log",
            "*",
        ):
            status, told = asked(address, path)
            assert status == 400, (path, told)
        assert asked(address, f"//{elsewhere}/log")[0] != 200
        assert asked(address, "/log", f"Host: {elsewhere}")[0] == 200
        assert not other.world.arrived


@pytest.mark.parametrize(
    "path",
    ["/../log", "/%2e%2e/log", "/%252e%252e/log", "/..%5clog", "/./../log", "/a/..%2f..%2flog"],
)
def test_a_proxy_leads_not_out_of_its_targets_folder(path: str) -> None:
    with Service() as target, serving(EgressProxy(f"{target.url}/messages")) as address:
        assert asked(address, path)[0] == 400


@pytest.mark.parametrize("length", ["-1", "1e3", "\u0661", "+1", "0x10"])
def test_a_proxy_takes_no_length_that_is_none(length: str) -> None:
    with Service() as target, serving(EgressProxy(target.url)) as address:
        assert asked(address, "/log", f"Content-Length: {length}")[0] == 400
        assert asked(address, "/log", "Transfer-Encoding: chunked")[0] == 400


class Redirecting:
    """A downstream that its owner has turned against us: every answer leads elsewhere."""

    def __init__(self, to: str) -> None:
        self.to = to

    def __call__(self, environ: dict[str, Any], start_response: Any) -> list[bytes]:
        start_response(f"{302} Found", [("Location", self.to), ("Content-Length", "0")])
        return [b""]


def test_a_look_up_follows_no_redirect_to_a_host_that_nobody_registered() -> None:
    with Service() as private, serving(Redirecting(f"{private.url}/log")) as (host, port):
        adapter = HttpKey(f"http://{host}:{port}/", look_up_url=f"http://{host}:{port}/{{key}}")
        effect = Bound(effect_id="e" * 64, payload={}, payload_digest="sha256:" + "0" * 64)
        found = adapter.look_up(effect, deadline=_soon())
        assert not isinstance(found, Happened)
        assert not private.world.arrived


def _soon() -> float:
    return time.monotonic() + 30


HOSTILE: Final = {
    "https://evil.example/x": "https\\://evil.example/x",
    "see www.evil.example": "see www\\.evil.example",
    "javascript:alert(1)": "javascript\\:alert(1)",
    "mailto:a": "mailto\\:a",
    "@everyone": "\\@everyone",
    "![x](y)": "\\!\\[x\\](y)",
    "&lt;script&gt;": "\\&lt;script\\&gt;",
    "~~gone~~": "\\~\\~gone\\~\\~",
    "<b>": "\\<b\\>",
    "a | b\n| c": "a \\| b \\| c",
    "12:30": "12:30",
    "`code`": "\\`code\\`",
}


@pytest.mark.parametrize("text", list(HOSTILE))
def test_a_report_makes_no_link_mention_or_tag_of_what_others_wrote(text: str) -> None:
    assert _cell(text) == HOSTILE[text]


@pytest.mark.parametrize(
    "cell", [" =1+1", "  @SUM(A1)", "\uff1d1+1", "\uff0b1", "\uff0d1", "\uff20A1"]
)
def test_a_formula_is_none_behind_blanks_or_in_wide_letters(cell: str) -> None:
    assert harmless(cell) == f"'{cell}"
