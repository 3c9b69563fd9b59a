"""What is kept of each database outside of it, so that a restored one is known by it (contract 12).

One JSON file: by database name its identity, the furthest position of its log, and the highest
epoch of each queue. Written whole beside its place, flushed, renamed and flushed again; writers
take turns by a lock file beside it. A write that is lost only makes the record older.
"""

import fcntl
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

#: A record is a few kilobytes; a larger file is not one of ours.
MAX_BYTES: Final = 16 * 1024 * 1024
FORMAT: Final = 1


class Unreadable(Exception):
    """There is a record and it can't be read: nobody can say whether the database is the one it names."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Which database this is. A copy, a restore and a promoted standby each have another one.

    `system_identifier` is the cluster's, made by initdb; `timeline` rises with each promotion and each
    recovery to a point in time; `database_oid` is another one after a database was made anew.
    """

    system_identifier: str
    timeline: int
    database_oid: int
    database: str

    def __str__(self) -> str:
        return (
            f"system {self.system_identifier}, timeline {self.timeline},"
            f" database {self.database} ({self.database_oid})"
        )


@dataclass(frozen=True, slots=True)
class Record:
    """One database as it was last seen. `log_position` is in bytes and only rises on one timeline.

    `earlier`: the highest epochs of databases that had this name before, in case one of them comes back.
    """

    identity: Identity
    log_position: int = 0
    epochs: Mapping[str, int] = field(default_factory=dict)
    earlier: Mapping[str, int] = field(default_factory=dict)

    def with_epochs(self, epochs: Mapping[str, int]) -> "Record":
        """The same with the higher epoch of each queue."""
        return replace(self, epochs=highest(self.epochs, epochs))

    def followed_by(self, identity: Identity, log_position: int) -> "Record":
        """Another database has taken this one's place; the epochs that were seen stay on file."""
        return Record(identity, log_position, {}, highest(self.epochs, self.earlier))


def highest(some: Mapping[str, int], others: Mapping[str, int]) -> dict[str, int]:
    """The higher epoch of each queue."""
    names = {*some, *others}
    return {name: max(some.get(name, 0), others.get(name, 0)) for name in names}


def read_record(path: Path, database: str) -> Record | None:
    """What is on file about this database; None where nothing is. Raises Unreadable."""
    return _records(path).get(database)


def change_record(
    path: Path, database: str, change: Callable[[Record | None], Record | None]
) -> None:
    """Put what `change` makes of the record in its place; None takes it away. Raises OSError, Unreadable."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with _turn(path):
        records = _records(path)
        before = records.get(database)
        after = change(before)
        if after == before:
            return
        if after is None:
            del records[database]
        else:
            records[database] = after
        _replace(path, records)


@contextmanager
def _turn(path: Path) -> Iterator[None]:
    """Writers of all processes, one at a time. The lock file is never removed: its lock is what counts."""
    with path.with_name(f"{path.name}.lock").open("a+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _replace(path: Path, records: Mapping[str, Record]) -> None:
    told = {"format": FORMAT, "databases": {name: asdict(each) for name, each in records.items()}}
    new = path.with_name(f"{path.name}.new")
    with new.open("w") as file:
        json.dump(told, file, indent=1, sort_keys=True)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        with suppress(OSError):  # some shared file systems can't flush a folder
            os.fsync(folder)
    finally:
        os.close(folder)


def _records(path: Path) -> dict[str, Record]:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise Unreadable(f"{path} is larger than a record can be")
        told = json.loads(path.read_text())
        return {name: _record(each) for name, each in told["databases"].items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise Unreadable(f"{path} can't be read ({type(error).__name__}: {error})") from error


def _record(told: Mapping[str, Any]) -> Record:
    return Record(
        Identity(**told["identity"]),
        int(told["log_position"]),
        {str(name): int(epoch) for name, epoch in told["epochs"].items()},
        {str(name): int(epoch) for name, epoch in told["earlier"].items()},
    )
