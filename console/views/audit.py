"""`/audit`: who did what to which object, when, from where and why; and the same as files."""

from collections.abc import Callable, Iterator
from typing import Any, Final

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase

from console.audits import REFUSED, as_csv, as_ndjson, tell, wanted_audit
from console.pages import page, refuse, show
from console.people import permit
from console.preferences import read_preferences
from coordinator.selectors.console_audit import AuditRow, export_rows, read_page
from coordinator.selectors.console_counts import in_time
from coordinator.services.events import EventKind

_WRITERS: Final[dict[str, tuple[str, Callable[..., Iterator[bytes]]]]] = {
    "ndjson": ("application/x-ndjson", as_ndjson),
    "csv": ("text/csv; charset=utf-8", as_csv),
}


@page()
def audit(request: HttpRequest) -> HttpResponse:
    wanted = wanted_audit(request.GET, read_preferences(request).tzinfo)
    found = in_time(lambda: read_page(wanted.audit, before=wanted.before))
    context = {
        "wanted": wanted,
        "listed": [tell(row) for row in found.rows] if found else [],
        "found": found,
        "kinds": sorted(EventKind),
        "refused": REFUSED,
        "addresses": bool(permit(request, "administer")),
    }
    return show(request, "console/audit.html", context)


@page()
def export(request: HttpRequest, form: str) -> HttpResponseBase:
    """`form` is `ndjson` or `csv`. Addresses are for administrators alone."""
    if form not in _WRITERS:
        return refuse(request, 404, {"what": form})
    wanted = wanted_audit(request.GET, read_preferences(request).tzinfo)
    if wanted.faults:
        return refuse(request, 404, {"what": next(iter(wanted.faults.values()))})
    content_type, write = _WRITERS[form]
    rows: Iterator[AuditRow | int] = export_rows(wanted.audit, before=wanted.before)
    lines: Any = write(rows, addresses=bool(permit(request, "administer")))
    response = StreamingHttpResponse(lines, content_type=content_type)
    response["Content-Disposition"] = f'attachment; filename="audit.{form}"'
    return response
