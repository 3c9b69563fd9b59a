"""The web server's entry point under chaos: the product's own, with one seeded bug where the run asks for it."""

from coordinator.site.wsgi import application
from tests.chaos.bugs import apply_named

apply_named()

__all__ = ["application"]
