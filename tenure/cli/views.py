"""`tenure views …`: filters of the list of tasks that people keep for each other; one is named by its name."""

from __future__ import annotations

import argparse

from tenure.cli.commands import Command
from tenure.cli.printing import print_json, print_table, say
from tenure.cli.settings import UsageError
from tenure.client import Client
from tenure.view_keeping import SavedView


def _list_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--counts", action="store_true", help="count the tasks that each finds")


def _list(client: Client, args: argparse.Namespace) -> bool:
    views = client.views(counts=args.counts)
    if args.json:
        print_json(views)
        return True
    counted = ("tasks",) if args.counts else ()
    rows = [
        [view.name, *([_count(view)] if counted else []), view.query, view.made_by]
        for view in views
    ]
    print_table(("name", *counted, "query", "made_by"), rows)
    return True


def _count(view: SavedView) -> str:
    if view.count is None:
        return "?"
    return f"{view.count}+" if view.at_least else str(view.count)


def _save_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="what it is called from now on")
    parser.add_argument(
        "query", metavar="QUERY", help="as in the address of the list, without its ?"
    )


def _save(client: Client, args: argparse.Namespace) -> bool:
    return _print(client.save_view(args.name, query=args.query), args)


def _name_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="what it is called now")


def _rename_arguments(parser: argparse.ArgumentParser) -> None:
    _name_argument(parser)
    parser.add_argument("new_name", metavar="NEW-NAME")


def _rename(client: Client, args: argparse.Namespace) -> bool:
    found = _find(client, args.name)
    renamed = client.rename_view(found.view_id, name=args.new_name, expected_name=found.name)
    return _print(renamed, args)


def _delete(client: Client, args: argparse.Namespace) -> bool:
    found = _find(client, args.name)
    client.delete_view(found.view_id, expected_name=found.name)
    return _print(found, args)


def _find(client: Client, name: str) -> SavedView:
    for view in client.views():
        if view.name.lower() == name.lower():
            return view
    raise UsageError(f"there is no view {name!r}; `tenure views list` shows all")


def _print(view: SavedView, args: argparse.Namespace) -> bool:
    if args.json:
        print_json(view)
    else:
        say(f"{view.name}  {view.query}")
    return True


VIEW_VERBS = (
    Command(
        name="list",
        does="print the saved views of the list of tasks",
        example="tenure views list --counts",
        arguments=_list_arguments,
        run=_list,
    ),
    Command(
        name="save",
        does="keep a filter for everybody",
        example='tenure views save "Tried often" "queue=review&q=attempts:>3"',
        arguments=_save_arguments,
        run=_save,
    ),
    Command(
        name="rename",
        does="give a view another name; by its maker, or who administers",
        example='tenure views rename "Tried often" "Stuck reviews"',
        arguments=_rename_arguments,
        run=_rename,
    ),
    Command(
        name="delete",
        does="take a view away; its tasks stay as they are",
        example='tenure views delete "Tried often"',
        arguments=_name_argument,
        run=_delete,
    ),
)
