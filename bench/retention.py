"""Something to take away for `prune` while a soak runs: what lay there before, made old."""

from typing import Final

from bench.place import Place

#: What the processes of the place are started with.
SETTINGS: Final = {"TENURE_KEEP_RUNS_DAYS": "30", "TENURE_KEEP_ANSWERS_HOURS": "48"}
#: More than the jobs of an hour take away.
RUNS: Final = 150
AGE_DAYS: Final = 60

_RUNS: Final = """
UPDATE coordinator_run SET created_at = created_at - %(age)s, finished_at = finished_at - %(age)s
WHERE id IN (SELECT id FROM coordinator_run WHERE finished_at > now() - %(age)s / 2 ORDER BY id LIMIT %(most)s)
"""
_ANSWERS: Final = """
UPDATE coordinator_storedanswer SET created_at = created_at - %(age)s
WHERE answer <> '' AND created_at > now() - %(age)s / 2
"""


def age(place: Place) -> dict[str, int]:
    """Make runs that are over and answers that were given old enough; how many of each."""
    told = {}
    with place.connect() as connection:
        # Times never change otherwise: the triggers that see to that are passed by, on this connection alone.
        connection.execute("SET session_replication_role = replica")
        for name, sql in (("runs", _RUNS), ("answers", _ANSWERS)):
            given = {"age": f"{AGE_DAYS} days", "most": RUNS}
            told[name] = connection.execute(
                sql.replace("%(age)s", "%(age)s::interval"), given
            ).rowcount
    return told
