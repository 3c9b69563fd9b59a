"""`manage.py check_templates`: every template compiles, and none needs what the content security policy forbids."""

import re
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.template import TemplateSyntaxError
from django.template.loader import get_template

# Each would be blocked in the browser, or needs `eval` there (console design, 2.1).
FORBIDDEN = {
    "an inline handler": re.compile(r"\son[a-z]+\s*=", re.IGNORECASE),
    "hx-on": re.compile(r"\bhx-on\b"),
    "a js: value": re.compile(r"""=\s*["'](?:js|javascript):""", re.IGNORECASE),
    "an inline style": re.compile(r"\sstyle\s*=|<style\b", re.IGNORECASE),
    "an inline script": re.compile(r"<script(?![^>]*\bsrc=)", re.IGNORECASE),
    "a trigger filter": re.compile(r"""hx-trigger\s*=\s*["'][^"']*\["""),
}


class Command(BaseCommand):
    help = "Compile every template and look for what the CSP forbids. Example: manage.py check_templates"
    requires_system_checks: list[str] = []

    def handle(self, *args: Any, **options: Any) -> None:
        root = Path(settings.BASE_DIR) / "templates"
        faults = [fault for path in sorted(root.rglob("*.html")) for fault in faults_of(path, root)]
        if faults:
            raise CommandError("\n".join(faults))
        self.stdout.write("Templates are in order.")


def faults_of(path: Path, root: Path) -> list[str]:
    """One line for each fault: file, line where known, and what it is."""
    name = str(path.relative_to(root))
    faults = []
    try:
        get_template(name)
    except TemplateSyntaxError as error:
        faults.append(f"{name}: {error}")
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        faults += [
            f"{name}:{number}: {what}"
            for what, pattern in FORBIDDEN.items()
            if pattern.search(line)
        ]
    return faults
