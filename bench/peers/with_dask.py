"""Dask distributed's rates on this machine: tasks that do nothing, and `true` as a process of its own.

Two worker processes of one thread, over TCP on loopback. Prints JSON. Runs in an environment of its own.
"""

import json
import subprocess
import sys
import time

import distributed
from distributed import Client, LocalCluster


def nothing(_):
    """What a task does that does nothing."""


def process(_):
    """A process that does nothing."""
    return subprocess.call(["/usr/bin/true"])


def rate(client, work, tasks, first):
    began = time.perf_counter()
    client.gather(client.map(work, range(first, first + tasks), pure=False))
    return tasks / (time.perf_counter() - began)


def main(nothings, processes, runs):
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, host="127.0.0.1") as cluster,
        Client(cluster) as client,
    ):
        rate(client, nothing, 100, 0)
        found = {
            "nothing": [rate(client, nothing, nothings, 0) for _ in range(runs)],
            "process": [rate(client, process, processes, 0) for _ in range(runs)],
        }
    print(json.dumps({**found, "versions": {"distributed": distributed.__version__}}))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
