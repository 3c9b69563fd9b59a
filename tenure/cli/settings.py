"""Where to connect and as whom; and documents from files or standard input."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from tenure.client import Client
from tenure.records import Json


class UsageError(Exception):
    """The command was used wrongly; the message names the mend."""


def connect(args: argparse.Namespace) -> Client:
    """A client for what the arguments and the environment say."""
    url = args.url or os.environ.get("TENURE_URL")
    if not url:
        raise UsageError(
            "no coordinator: set TENURE_URL or give --url, such as http://127.0.0.1:8000"
        )
    token = _token(args.token_file)
    try:
        return Client(url, token)
    except ValueError as error:
        raise UsageError(str(error)) from error


def document(source: str) -> Json:
    """The JSON of a file, or of standard input for `-`."""
    try:
        text = sys.stdin.read() if source == "-" else Path(source).read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot read {source}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{source} is not UTF-8 text: {error}") from error
    try:
        return json.loads(text)
    except ValueError as error:
        name = "standard input" if source == "-" else source
        raise UsageError(f"{name} is not JSON: {error}") from error


def _token(file: str | None) -> str:
    if file is not None:
        try:
            return Path(file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"cannot read the token from {file}: {error}") from error
    token = os.environ.get("TENURE_TOKEN", "")
    if not token:
        raise UsageError("no token: set TENURE_TOKEN or give --token-file")
    return token
