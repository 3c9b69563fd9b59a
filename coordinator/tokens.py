"""Bearer tokens: `tnr_w_<prefix>_<secret>` of a worker, `tnr_o_<prefix>_<secret>` of a person (contract 15).

The prefix finds the row; of the secret only a SHA-256 is kept. It has 256 random bits, so that
a slow hash would cost every request and protect nothing.
"""

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

_PREFIX_BYTES: Final = 6
_SECRET_BYTES: Final = 32
_SHAPE: Final = re.compile(r"tnr_([wo])_([0-9a-f]{12})_([0-9a-f]{64})")


class TokenKind(StrEnum):
    WORKER = "w"
    OPERATOR = "o"


@dataclass(frozen=True, slots=True)
class Token:
    """A token in its parts. `text` is shown once and never stored."""

    kind: TokenKind
    prefix: str
    secret: str

    @property
    def text(self) -> str:
        return f"tnr_{self.kind}_{self.prefix}_{self.secret}"

    @property
    def last4(self) -> str:
        """Shown beside the prefix, so that a person can tell which token they hold."""
        return self.secret[-4:]

    @property
    def sha256(self) -> bytes:
        return hashlib.sha256(self.text.encode()).digest()

    def matches(self, stored_sha256: bytes | memoryview) -> bool:
        """Compare in constant time with what is stored."""
        return hmac.compare_digest(self.sha256, bytes(stored_sha256))


def new_token(kind: TokenKind, *, secret: str | None = None) -> Token:
    return Token(kind, secrets.token_hex(_PREFIX_BYTES), secret or secrets.token_hex(_SECRET_BYTES))


def derived_secret(*, server_secret: str, request: str) -> str:
    """The secret of a token that was asked for under an Idempotency-Key.

    A repeat of the request can be answered with the very token although nothing but its
    hash is stored: it takes the server's own secret to make it.
    """
    return hmac.new(
        server_secret.encode(), f"tenure token\n{request}".encode(), hashlib.sha256
    ).hexdigest()


def read_token(text: str) -> Token | None:
    """The parts of a well-formed token; None for anything else."""
    found = _SHAPE.fullmatch(text)
    return Token(TokenKind(found[1]), found[2], found[3]) if found else None
