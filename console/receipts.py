"""A form that is sent twice is carried out once and answered alike: by its `action_key` (console design, 3.3).

What is kept is where the first answer led and what it told. An answer that shows something once, such as a token, is
not kept; its service knows its repeat. A refusal is not kept either: nothing was done, and the form may be sent again.
"""

import re
import time
from collections.abc import Callable
from typing import Any, Final

import orjson
from django.contrib import messages
from django.http import HttpRequest, HttpResponseRedirect
from django.http.response import HttpResponseBase

from coordinator import digests
from coordinator.services.answers import RequestKey
from coordinator.services.form_receipts import Sending, forget_form, keep_receipt, take_form

#: How long the second sending waits for the first one's receipt.
WAIT_SECONDS: Final = 10.0
_PAUSE_SECONDS: Final = 0.05
#: What Django's storage of messages has got with this answer.
_QUEUED: Final = "_queued_messages"
_KEY: Final = re.compile(r"[0-9a-f-]{16,64}")
_NO_WORDS: Final = frozenset({"csrfmiddlewaretoken", "action_key"})


def once(
    request: HttpRequest,
    carry_out: Callable[[], HttpResponseBase],
    busy: Callable[[], HttpResponseBase],
    *,
    kept: bool = True,
) -> HttpResponseBase:
    """The answer of `carry_out`, or of the form's first sending; `busy` where that takes too long."""
    key = request.POST.get("action_key", "") if request.method == "POST" and kept else ""
    if not _KEY.fullmatch(key):
        return carry_out()
    form = _named(request, key)
    deadline = time.monotonic() + WAIT_SECONDS
    while (taken := take_form(form)) is Sending.UNDER_WAY:
        if time.monotonic() > deadline:
            return busy()
        time.sleep(_PAUSE_SECONDS)
    match taken:
        case Sending.FIRST:
            return _carried_out(request, form, carry_out)
        case Sending.ANOTHER:
            return carry_out()
        case _:
            return _again(request, taken)


def _named(request: HttpRequest, key: str) -> RequestKey:
    """The form of this person at this address, with a digest of all that was sent."""
    sent = sorted((name, request.POST.getlist(name)) for name in request.POST)
    words: list[Any] = [pair for pair in sent if pair[0] not in _NO_WORDS]
    digest = digests.sha256(repr([request.get_full_path(), words]).encode())
    return RequestKey(f"console:{request.user.pk}:form:{request.path}", key, digest)


def _carried_out(
    request: HttpRequest, form: RequestKey, carry_out: Callable[[], HttpResponseBase]
) -> HttpResponseBase:
    receipt = None
    try:
        response = carry_out()
        if response.status_code == 302:
            told = [  # of this answer alone: what waited from before is not its receipt
                (message.level, str(message.message))
                for message in getattr(messages.get_messages(request), _QUEUED, ())
            ]
            receipt = orjson.dumps({"to": response["Location"], "told": told}).decode()
    finally:
        if receipt is None:
            forget_form(form)
        else:
            keep_receipt(form, receipt)
    return response


def _again(request: HttpRequest, receipt: str) -> HttpResponseRedirect:
    kept = orjson.loads(receipt)
    for level, text in kept["told"]:
        messages.add_message(request, level, text)
    return HttpResponseRedirect(kept["to"])
