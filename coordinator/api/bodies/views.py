"""Saved views of the list of tasks (console design, 7.2)."""

from typing import Annotated

from pydantic import StringConstraints

from coordinator.selectors.saved_views import MAX_VIEW_NAME, MAX_VIEW_QUERY

from .fields import Body

ViewName = Annotated[str, StringConstraints(min_length=1, max_length=MAX_VIEW_NAME)]


class ViewBody(Body):
    """`query` as in the address of the list: `queue=review&q=attempts:>3 age:>15m`."""

    name: ViewName
    query: Annotated[str, StringConstraints(min_length=1, max_length=MAX_VIEW_QUERY)]


class ViewRenameBody(Body):
    """`expected_name`: as it was seen; another by now is refused."""

    name: ViewName
    expected_name: ViewName


class ViewDeleteBody(Body):
    expected_name: ViewName
