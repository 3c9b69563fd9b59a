"""What the processes, the connections and the tables of a running place look like at one moment."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bench.place import Place

#: Tables that every task writes to, and those that the background takes from.
HOT: Final = ("task", "attempt", "canonicalcommit", "event", "run", "storedanswer")
_TABLES: Final = """
SELECT relname, n_live_tup, n_dead_tup, n_tup_upd, n_tup_hot_upd, vacuum_count + autovacuum_count,
       pg_table_size(relid), pg_indexes_size(relid)
FROM pg_stat_user_tables WHERE relname = ANY(%s)
"""
_DATABASE: Final = """
SELECT pg_database_size(current_database()), pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint,
       (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'),
       (SELECT count(*) FROM coordinator_task WHERE state = 'READY')
"""
MIB: Final = 1024**2


@dataclass(slots=True)
class Processes:
    """The processes of a place by name, each with all that it has started."""

    roots: dict[str, int] = field(default_factory=dict)

    def memory(self) -> dict[str, float]:
        """MiB: resident of each web process; of the others together, each page counted once where /proc tells it."""
        told: dict[str, float] = {}
        for name, root in self.roots.items():
            if name == "web":
                children = sorted(_children(root)) or [root]
                for number, pid in enumerate(children, start=1):
                    told[f"web {number} RSS MiB"] = _kib(pid, "status", "VmRSS") / 1024
            else:
                found = [root, *_descendants(root)]
                told[f"{name} PSS MiB"] = sum(_proportional(pid) for pid in found) / 1024
        return {name: round(value, 1) for name, value in told.items()}


@dataclass(slots=True)
class Sampler:
    """Takes samples; what grows with the work is told for each task that was committed since the last one."""

    place: Place
    processes: Processes
    _before: dict[str, Any] = field(default_factory=dict)

    def take(self, *, committed: int) -> tuple[dict[str, float], dict[str, Any]]:
        """The figures whose growth is judged, and what was read besides."""
        raw = self._read()
        figures = self.processes.memory()
        figures |= {"connections": raw["connections"], "READY tasks": raw["ready"]}
        for name, table in raw["tables"].items():
            rows = table["live"] + table["dead"]
            figures[f"{name} dead rows %"] = round(100 * table["dead"] / rows, 2) if rows else 0.0
        if self._before and committed:
            figures |= _since(self._before, raw, committed)
        self._before = raw
        return figures, raw

    def _read(self) -> dict[str, Any]:
        with self.place.connect() as connection:
            row = connection.execute(_DATABASE).fetchone() or (0, 0, 0, 0)
            names = [f"coordinator_{name}" for name in HOT]
            tables = connection.execute(_TABLES, (names,)).fetchall()
        keys = ("live", "dead", "updates", "hot", "vacuums", "table_bytes", "index_bytes")
        return {
            **dict(zip(("bytes", "wal_bytes", "connections", "ready"), row, strict=True)),
            "tables": {
                name.removeprefix("coordinator_"): dict(zip(keys, rest, strict=True))
                for name, *rest in sorted(tables)
            },
        }


def _since(before: dict[str, Any], now: dict[str, Any], committed: int) -> dict[str, float]:
    told = {
        "WAL kB a task": (now["wal_bytes"] - before["wal_bytes"]) / committed / 1000,
        "disk kB a task": (now["bytes"] - before["bytes"]) / committed / 1000,
    }
    for name in ("task", "attempt"):
        new, old = now["tables"].get(name), before["tables"].get(name)
        if new and old and new["updates"] > old["updates"]:
            share = (new["hot"] - old["hot"]) / (new["updates"] - old["updates"])
            told[f"{name} HOT updates %"] = 100 * share
    return {name: round(value, 2) for name, value in told.items()}


def _children(pid: int) -> list[int]:
    try:
        return [
            int(child)
            for each in Path(f"/proc/{pid}/task").glob("*/children")
            for child in each.read_text().split()
        ]
    except OSError:  # it has just ended
        return []


def _descendants(pid: int) -> list[int]:
    found: list[int] = []
    left = _children(pid)
    while left:
        found.append(left.pop())
        left += _children(found[-1])
    return found


def _proportional(pid: int) -> int:
    """KiB; pages that several processes share are divided among them. Resident where that can't be read."""
    return _kib(pid, "smaps_rollup", "Pss") or _kib(pid, "status", "VmRSS")


def _kib(pid: int, file: str, field_name: str) -> int:
    try:
        lines = Path(f"/proc/{pid}/{file}").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(f"{field_name}:")), 0)
