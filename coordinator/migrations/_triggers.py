"""How the triggers of contract 16 are written: called only where their WHEN holds, so that they cost nothing else."""


def sql_array(arrows: list[str]) -> str:
    return "ARRAY[" + ",".join(f"'{arrow}'" for arrow in arrows) + "]"


def unguarded(table: str) -> tuple[str, str]:
    name = f"{table}_through_the_guard"
    create = (
        f"CREATE TRIGGER {name} BEFORE INSERT OR UPDATE OR DELETE ON coordinator_{table} FOR EACH STATEMENT"
        " WHEN (coalesce(current_setting('tenure.point', true), '') = '')"
        " EXECUTE FUNCTION tenure_refuse_unguarded();"
    )
    return create, f"DROP TRIGGER {name} ON coordinator_{table};"


def refuse(
    table: str, name: str, condition: str, message: str, *, event: str = "UPDATE"
) -> tuple[str, str]:
    """A row trigger that is called only where `condition` holds: 2 µs a row instead of 18."""
    create = (
        f"CREATE TRIGGER {name} BEFORE {event} ON coordinator_{table} FOR EACH ROW"
        f" WHEN ({condition}) EXECUTE FUNCTION tenure_refuse('{message}');"
    )
    return create, f"DROP TRIGGER {name} ON coordinator_{table};"


def arrows(table: str, allowed: list[str]) -> tuple[str, str]:
    return refuse(
        table,
        f"{table}_arrows",
        f"OLD.state <> NEW.state AND NOT (OLD.state || '>' || NEW.state) = ANY ({sql_array(allowed)})",
        "the state does not lead there",
        event="UPDATE OF state",
    )


def append_only(table: str) -> tuple[str, str]:
    name = f"{table}_append_only"
    create = (
        f"CREATE TRIGGER {name} BEFORE UPDATE OR DELETE ON coordinator_{table} FOR EACH STATEMENT"
        " WHEN (coalesce(current_setting('tenure.point', true), '') <> 'prune')"
        " EXECUTE FUNCTION tenure_refuse('it is append-only');"
    )
    return create, f"DROP TRIGGER {name} ON coordinator_{table};"
