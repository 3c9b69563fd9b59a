"""`manage.py create_operator`: a person with a role, and a personal API token if asked (contract 17)."""

import getpass
import json
import secrets
import sys
from typing import Any

from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import Group, User
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import transaction

from coordinator.services.credentials import create_operator_token
from coordinator.services.roles import ROLES


class Command(BaseCommand):
    help = (
        "Make a person who can sign in, with one role; --token also prints a personal API token, once. "
        "The password is asked for, or read from the first line of stdin with --password-stdin, else made up and "
        "printed. Example: manage.py create_operator alice --role operator --token"
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="the name to sign in with")
        parser.add_argument("--role", required=True, choices=list(ROLES))
        parser.add_argument("--token", action="store_true", help="also make a personal API token")
        parser.add_argument(
            "--password-stdin", action="store_true", help="read the password from stdin"
        )
        parser.add_argument("--json", action="store_true", help="print JSON for a script")

    def handle(self, *args: Any, **options: Any) -> None:
        name, role = options["name"], options["role"]
        password, made_up = self._password(options)
        try:
            User.username_validator(name)
            validate_password(password, User(username=name))
        except ValidationError as error:
            raise CommandError(" ".join(error.messages)) from error
        # Before the transaction: on a busy machine the hash takes longer than one may stand idle.
        user = User(username=name, password=make_password(password), is_staff=role == "admin")
        with transaction.atomic():
            if User.objects.filter(username=name).exists():
                raise CommandError(
                    f"There is a {name} already. Give another name, or change the role in the admin."
                )
            user.save()
            user.groups.add(Group.objects.get(name=role))
            token = (
                create_operator_token(user=user, name="create_operator")[1]
                if options["token"]
                else None
            )
        told = {
            "name": name,
            "role": role,
            "password": password if made_up else None,
            "token": token,
        }
        if options["json"]:
            self.stdout.write(json.dumps(told))
            return
        self.stdout.write(f"{name} may sign in with the role {role}.")
        if made_up:
            self.stdout.write(f"The password, shown only now: {password}")
        if token:
            self.stdout.write(f"The personal token, shown only now: {token}")

    def _password(self, options: dict[str, Any]) -> tuple[str, bool]:
        if options["password_stdin"]:
            return sys.stdin.readline().rstrip("\n"), False
        if sys.stdin.isatty() and not options["json"]:
            first = getpass.getpass("Password: ")
            if getpass.getpass("The same again: ") != first:
                raise CommandError("The two passwords differ; nothing was made.")
            return first, False
        return secrets.token_urlsafe(18), True
