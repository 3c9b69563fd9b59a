"""etcd: lock, fenced put, unlock through its HTTP gateway (three replicated writes per cycle).

The lock key ends in the lease id, so it is unique to one ownership: the put is one
transaction that succeeds only while that key still exists.
--dsn http://127.0.0.1:PORT
"""

import argparse
import base64
import http.client
import json
import multiprocessing
import threading
import time
from urllib.parse import urlparse

import harness

NAME = "etcd lock+txn+unlock"


def b64(text):
    return base64.b64encode(text.encode()).decode()


class Gateway:
    def __init__(self, url):
        self.conn = http.client.HTTPConnection(urlparse(url).netloc, timeout=20)

    def post(self, path, **body):
        self.conn.request(
            "POST", "/v3/" + path, json.dumps(body), {"Content-Type": "application/json"}
        )
        answer = self.conn.getresponse()
        data = json.loads(answer.read())
        if answer.status != 200:
            raise RuntimeError(data)
        return data

    def lock(self, name, lease):
        return self.post("lock/lock", name=b64(name), lease=lease)["key"]

    def fenced_put(self, key, name, value):
        return self.post(
            "kv/txn",
            compare=[{"key": key, "target": "CREATE", "result": "GREATER", "create_revision": 0}],
            success=[{"request_put": {"key": b64(name), "value": b64(value)}}],
        ).get("succeeded", False)

    def unlock(self, key):
        self.post("lock/unlock", key=key)


def cycles(url, worker, until, counts, waits):
    gateway = Gateway(url)
    lease = gateway.post("lease/grant", TTL=60)["ID"]
    done = 0
    while time.time() < until:
        begin = time.time()
        key = gateway.lock(f"task/{worker}/{done}", lease)
        waits.append(time.time() - begin)
        assert gateway.fenced_put(key, f"result/{worker}/{done}", "ok")
        gateway.unlock(key)
        done += 1
    counts.append(done)


def process(url, number, threads, until, queue):
    counts, waits = [], []
    pool = [
        threading.Thread(target=cycles, args=(url, f"{number}-{i}", until, counts, waits))
        for i in range(threads)
    ]
    for thread in pool:
        thread.start()
    for thread in pool:
        thread.join()
    queue.put((sum(counts), waits))


def stale(url):
    gateway = Gateway(url)
    first = gateway.post("lease/grant", TTL=30)["ID"]
    key = gateway.lock("stale", first)
    gateway.post("lease/revoke", ID=first)  # what the end of the lease does
    gateway.lock("stale", gateway.post("lease/grant", TTL=30)["ID"])
    return "accepted" if gateway.fenced_put(key, "stale-result", "late") else "refused"


def measure(url, procs, threads, seconds):
    queue, until = multiprocessing.Queue(), time.time() + seconds
    pool = [
        multiprocessing.Process(target=process, args=(url, number, threads, until, queue))
        for number in range(procs)
    ]
    for item in pool:
        item.start()
    answers = [queue.get() for _ in pool]
    for item in pool:
        item.join()
    waits = sorted(wait * 1000 for _, waits in answers for wait in waits)
    return {
        "peer": NAME,
        "procs": procs,
        "settings": {"threads": threads},
        "jobs_per_s": round(sum(done for done, _ in answers) / seconds),
        "complete": True,
        "lock_p50_ms": round(harness.percentile(waits, 0.5), 1),
        "lock_p95_ms": round(harness.percentile(waits, 0.95), 1),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dsn", required=True)
    parser.add_argument("--seconds", type=float, default=6)
    options, _ = parser.parse_known_args()
    for procs, threads in ((1, 1), (1, 8), (2, 16)):
        harness.tell(measure(options.dsn, procs, threads, options.seconds))
    harness.tell({"peer": NAME, "late_completion": stale(options.dsn)})


if __name__ == "__main__":
    main()
