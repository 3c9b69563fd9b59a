"""What clients asked and were answered, with monotonic times: one file a process, a line for each moment.

A call is written down before it is sent, so that one whose client was killed is known, and known to be unanswered. The
monotonic clock is one for all processes of a machine; no wall clock is read.
"""

from __future__ import annotations

import itertools
import json
import os
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tenure.errors import Problem, Throttled
from tenure.transport import Answer, Call, Transport


@dataclass(frozen=True, slots=True)
class Seen:
    """One call as its client saw it. `ended` is None where no answer was ever heard."""

    client: str
    path: str
    began: float
    body: Any
    key: str | None
    ended: float | None = None
    status: int | None = None
    answer: Any = None


class Recorder:
    """Appends to one file; safe to use from many threads. A line is written whole, or the process was killed in it."""

    def __init__(self, folder: Path, client: str) -> None:
        self._client = f"{client}-{os.getpid()}"
        self._file = (folder / f"{self._client}.jsonl").open("ab", buffering=0)
        self._numbers = itertools.count()
        self._lock = threading.Lock()

    def close(self) -> None:
        self._file.close()

    def asked(self, path: str, body: Any, key: str | None = None) -> int:
        with self._lock:
            number = next(self._numbers)
        self._write({"n": number, "path": path, "body": body, "key": key})
        return number

    def heard(self, number: int, status: int, answer: Any) -> None:
        self._write({"n": number, "status": status, "answer": answer})

    def _write(self, line: dict[str, Any]) -> None:
        line["at"] = time.monotonic()
        self._file.write(json.dumps(line).encode() + b"\n")


def observe_library(recorder: Recorder) -> None:
    """Have every POST of this process's `tenure` library written down: one logical call, with all of its tries."""
    real = Transport.send

    def send(self: Transport, call: Call, **options: Any) -> Answer:
        if call.method != "POST" or call.content is None:
            return real(self, call, **options)
        body = json.loads(call.content)
        number = recorder.asked(call.path, body, call.headers.get("Idempotency-Key"))
        try:
            answer = real(self, call, **options)
        except Throttled:
            raise
        except Problem as problem:
            told = {"outcome": problem.outcome, "reason": problem.reason}
            recorder.heard(number, problem.status, told)
            raise
        recorder.heard(number, answer.status, answer.body)
        return answer

    Transport.send = send  # type: ignore[method-assign]


def read_all(folder: Path) -> list[Seen]:
    """Everything that was seen, in the order in which it was asked."""
    found = [seen for file in folder.glob("*.jsonl") for seen in _read(file)]
    return sorted(found, key=lambda seen: seen.began)


def _read(file: Path) -> Iterable[Seen]:
    calls: dict[int, Seen] = {}
    for raw in file.read_bytes().split(b"\n"):
        try:
            line = json.loads(raw)
        except ValueError:
            continue  # the end of a file whose writer was killed
        if "path" in line:
            calls[line["n"]] = Seen(
                file.stem, line["path"], line["at"], line["body"], line.get("key")
            )
        elif line["n"] in calls:
            calls[line["n"]] = replace(
                calls[line["n"]],
                ended=line["at"],
                status=line["status"],
                answer=line["answer"],
            )
    return calls.values()
