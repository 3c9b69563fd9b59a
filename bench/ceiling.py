"""The ceiling: what PostgreSQL allows for claim + fenced commit, by pgbench, with no application code at all.

single   two multi-statement transactions per task
batch    the same work for BATCH tasks in each pair of transactions
"""

import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Final

from bench.place import Place

BATCH: Final = 50
CLIENTS: Final = (1, 4, 16)
DATABASE: Final = "ceiling"

SCHEMA: Final = """
DROP TABLE IF EXISTS canonical_commit, attempt, task;
CREATE TABLE task (
  id bigint PRIMARY KEY, state smallint NOT NULL DEFAULT 0, priority int NOT NULL DEFAULT 0,
  generation bigint NOT NULL DEFAULT 0, lease_until timestamptz, payload jsonb NOT NULL DEFAULT '{}')
  WITH (fillfactor = 70);
CREATE INDEX task_ready ON task (priority, id) WHERE state = 0;
CREATE TABLE attempt (
  task_id bigint NOT NULL REFERENCES task, generation bigint NOT NULL, worker int NOT NULL,
  started timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (task_id, generation));
CREATE TABLE canonical_commit (
  task_id bigint PRIMARY KEY REFERENCES task, generation bigint NOT NULL, result jsonb NOT NULL,
  committed timestamptz NOT NULL DEFAULT now());
INSERT INTO task (id) SELECT i FROM generate_series(1, {tasks}) i;
VACUUM ANALYZE task;
CHECKPOINT;
"""

SINGLE: Final = """
BEGIN;
SELECT id AS tid FROM task WHERE state = 0 ORDER BY priority, id LIMIT 1 FOR UPDATE SKIP LOCKED \\gset
UPDATE task SET state = 1, generation = generation + 1, lease_until = now() + interval '30 s'
  WHERE id = :tid RETURNING generation AS gen \\gset
INSERT INTO attempt (task_id, generation, worker) VALUES (:tid, :gen, :client_id);
COMMIT;
BEGIN;
SELECT generation = :gen AS fence FROM task WHERE id = :tid AND state = 1 FOR UPDATE \\gset
INSERT INTO canonical_commit (task_id, generation, result) SELECT :tid, :gen, '{"ok": true}' WHERE :fence::boolean;
UPDATE task SET state = 2, lease_until = NULL WHERE id = :tid AND generation = :gen;
COMMIT;
"""

BATCHED: Final = f"""
WITH picked AS (
  SELECT id FROM task WHERE state = 0 ORDER BY priority, id LIMIT {BATCH} FOR UPDATE SKIP LOCKED),
claimed AS (
  UPDATE task t SET state = 1, generation = t.generation + 1, lease_until = now() + interval '30 s'
  FROM picked p WHERE t.id = p.id RETURNING t.id, t.generation),
noted AS (INSERT INTO attempt (task_id, generation, worker) SELECT id, generation, :client_id FROM claimed)
SELECT array_agg(id) AS ids, array_agg(generation) AS gens FROM claimed \\gset
BEGIN;
SELECT count(*) FROM (SELECT t.id FROM task t JOIN unnest(:ids::bigint[], :gens::bigint[]) f(id, gen)
  ON t.id = f.id AND t.generation = f.gen WHERE t.state = 1 FOR UPDATE OF t) locked;
WITH fenced AS (
  UPDATE task t SET state = 2, lease_until = NULL
  FROM unnest(:ids::bigint[], :gens::bigint[]) f(id, gen)
  WHERE t.id = f.id AND t.generation = f.gen AND t.state = 1 RETURNING t.id, t.generation)
INSERT INTO canonical_commit (task_id, generation, result) SELECT id, generation, '{{"ok": true}}' FROM fenced;
COMMIT;
"""


def measure(
    place: Place, *, seconds: float, clients: tuple[int, ...] = CLIENTS
) -> list[dict[str, Any]]:
    """Cycles per second of each script at each number of clients."""
    with place.connect() as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)")
        connection.execute(f"CREATE DATABASE {DATABASE}")
    rows = []
    for name, script, tasks, cycle in (
        ("single", SINGLE, 100_000, 1),
        ("batch", BATCHED, 400_000, BATCH),
    ):
        for count in clients:
            _call(place, "psql", "-Xq", script=SCHEMA.replace("{tasks}", str(tasks)))
            told = _call(
                place,
                "pgbench",
                "-n",
                "-M",
                "prepared",
                "-c",
                str(count),
                "-j",
                "2",
                "-T",
                str(max(1, round(seconds))),
                script=script,
            )
            found = re.search(r"tps = ([\d.]+)", told)
            assert found is not None, told
            rows.append(
                {
                    "what": f"ceiling {name}",
                    "clients": count,
                    "cycles_per_s": round(float(found[1]) * cycle),
                }
            )
    return rows


def _call(place: Place, tool: str, *arguments: str, script: str) -> str:
    url = place.postgres.url.rsplit("/", 1)[0] + f"/{DATABASE}"
    with tempfile.NamedTemporaryFile("w", suffix=".sql") as file:
        file.write(script)
        file.flush()
        Path(file.name).chmod(0o644)
        programs = Path(place.postgres.binaries)
        done = subprocess.run(
            [str(programs / tool), *arguments, "-f", file.name, url],
            check=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
    return done.stdout
