"""The canary of the fence drill: what its kind, pool, credential, downstream and runs are called (contract 14)."""

from typing import Final

#: Reserved: nobody else submits tasks of this kind, and no claim but the drill's own is offered one.
DRILL: Final = "tenure.drill"
#: Who submits the canary runs. Lists leave these out, unless the kind is asked for.
SUBMITTED_BY: Final = "system:drill"
