"""Reading the bytes that an attempt put aside; checked against their digest."""

from __future__ import annotations

import hashlib
from typing import IO
from urllib.parse import quote

from tenure.errors import UnexpectedAnswer
from tenure.retrying import Repeat
from tenure.transport import Call, Transport


class _Digesting:
    """A file that digests what passes; written anew from its start where an answer broke off."""

    def __init__(self, into: IO[bytes]) -> None:
        self._into = into
        self._start = into.tell() if into.seekable() else 0
        self._hash = hashlib.sha256()

    @property
    def digest(self) -> str:
        return f"sha256:{self._hash.hexdigest()}"

    def write(self, data: bytes) -> int:
        self._hash.update(data)
        return self._into.write(data)

    def seekable(self) -> bool:
        return self._into.seekable()

    def tell(self) -> int:
        return self._start

    def seek(self, position: int) -> int:
        self._hash = hashlib.sha256()
        return self._into.seek(position)

    def truncate(self) -> int:
        return self._into.truncate()


def fetch_blob(
    transport: Transport, attempt_id: str, name: str, into: IO[bytes], *, digest: str | None
) -> str:
    """Write a blob's bytes into a file; its digest. UnexpectedAnswer where it is not the one that was expected."""
    target = _Digesting(into)
    call = Call(
        method="GET",
        path=f"attempts/{quote(attempt_id, safe='')}/blobs/{quote(name, safe='')}",
        into=target,  # type: ignore[arg-type]  # the part of IO[bytes] that a download needs
        into_start=target.tell(),
        headers={"Accept": "*/*"},
        repeat=Repeat.BY_NATURE,
    )
    transport.send(call)
    if digest is not None and target.digest != digest:
        raise UnexpectedAnswer(
            f"blob {name!r} of attempt {attempt_id}: its digest is {target.digest}, not {digest}"
        )
    return target.digest
