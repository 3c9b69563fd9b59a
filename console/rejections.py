"""Why a person says no, in the words of the page."""

from typing import Final

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy

from coordinator.states import RejectionCode

REJECTIONS: Final[dict[str, Promise]] = {
    RejectionCode.WRONG_CONTENT: gettext_lazy("The content is wrong"),
    RejectionCode.WRONG_RECIPIENT: gettext_lazy("It goes to the wrong place"),
    RejectionCode.NOT_NEEDED: gettext_lazy("It is not needed any more"),
    RejectionCode.NOT_ALLOWED: gettext_lazy("A policy forbids it"),
    RejectionCode.SUSPICIOUS: gettext_lazy(
        "It looks suspicious: somebody should look at the agent"
    ),
    RejectionCode.OTHER: gettext_lazy("Something else"),
}
