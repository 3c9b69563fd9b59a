"""`/tasks/views`: filters of the list of tasks that people keep for each other."""

from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect
from django.utils.translation import gettext as _

from console.filters import Wanted
from console.forms import ViewChange, ViewName
from console.listings import wanted_of
from console.pages import forbid, page, refuse, show
from console.people import actor_of, permit
from console.saved_views import permit_change, read_views
from console.service_words import in_words
from coordinator.outcomes import Outcome, Refusal
from coordinator.selectors.saved_views import MAX_VIEWS, ViewRecord, find_view
from coordinator.services.saved_views import delete_view, rename_view, save_view

_BOTH = ("GET", "HEAD", "POST")


@page()
def view_list(request: HttpRequest) -> HttpResponse:
    views = [(view, permit_change(request, view.record)) for view in read_views(counted=True)]
    return show(request, "console/views.html", {"views": views, "most": MAX_VIEWS})


@page(methods=_BOTH)
def create(request: HttpRequest) -> HttpResponse:
    """Name the filter of the address. One that is not understood, or asks for nothing, is not kept."""
    wanted = wanted_of(request.GET)
    if not wanted.typed or wanted.faults:
        detail = _("There is no filter to keep, or it has a fault. Filter the list first.")
        return refuse(request, 409, {"detail": detail, "back": f"/tasks{wanted.link()}"})
    form = ViewName(request.POST or None)
    if request.method == "POST" and form.is_valid():
        query = wanted.link().removeprefix("?")
        answer = save_view(name=form.cleaned_data["name"], query=query, actor=actor_of(request))
        if not isinstance(answer, Refusal):
            messages.success(request, _("Kept for everybody."))
            return redirect("console:task-views")
        form.add_error("name", in_words(answer.errors[0].detail))
    context = {"form": form, "wanted": wanted, "allowed": permit(request, "view")}
    return show(request, "console/view_form.html", context, status=422 if form.is_bound else 200)


@page(methods=_BOTH)
def rename(request: HttpRequest, view_id: UUID) -> HttpResponse:
    found = find_view(view_id)
    if found is None:
        return refuse(request, 404, {"what": str(view_id)})
    allowed = permit_change(request, found)
    if request.method == "POST" and not allowed:
        return forbid(request, allowed, "rename_view")
    form = ViewChange(request.POST or None, initial={"name": found.name})
    if request.method == "POST" and form.is_valid():
        answer = rename_view(
            view_id=view_id,
            name=form.cleaned_data["name"],
            expected_name=form.cleaned_data["shown_name"],
            actor=actor_of(request),
            administers=bool(permit(request, "administer")),
        )
        if not isinstance(answer, Refusal):
            return redirect("console:task-views")
        if answer.outcome is not Outcome.INVALID:
            return _refused(request, answer, view_id, form.cleaned_data["shown_name"])
        form.add_error("name", in_words(answer.errors[0].detail))
    context = {"form": form, "found": found, "wanted": _wanted(found), "allowed": allowed}
    return show(request, "console/view_form.html", context, status=422 if form.is_bound else 200)


@page(methods=_BOTH)
def delete(request: HttpRequest, view_id: UUID) -> HttpResponse:
    found = find_view(view_id)
    if found is None:
        return refuse(request, 404, {"what": str(view_id)})
    allowed = permit_change(request, found)
    if request.method == "POST":
        if not allowed:
            return forbid(request, allowed, "delete_view")
        shown = request.POST.get("shown_name", "")
        answer = delete_view(
            view_id=view_id,
            expected_name=shown,
            actor=actor_of(request),
            administers=bool(permit(request, "administer")),
        )
        if isinstance(answer, Refusal):
            return _refused(request, answer, view_id, shown)
        messages.success(request, _("The view is gone; its tasks are as they were."))
        return redirect("console:task-views")
    context = {"found": found, "wanted": _wanted(found), "allowed": allowed}
    return show(request, "console/view_delete.html", context)


def _wanted(found: ViewRecord) -> Wanted:
    return wanted_of(QueryDict(found.query))


def _refused(request: HttpRequest, refusal: Refusal, view_id: UUID, shown: str) -> HttpResponse:
    """409 with the name that it has by now."""
    found = find_view(view_id)
    if found is None or refusal.outcome is Outcome.NOT_FOUND:
        return refuse(request, 404, {"what": in_words(refusal.detail)})
    context = {
        "refusal": refusal,
        "detail": refusal.detail,
        "changes": [(_("Name"), shown, found.name)] if shown != found.name else [],
        "back": "/tasks/views",
    }
    return refuse(request, 409, context)
