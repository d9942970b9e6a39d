"""HyperQueue's rate on this machine: `true` as a process; it has no tasks without one.

Its server and a worker of two cores in this process, one job of many tasks, no files of output. Prints JSON.
Runs in an environment of its own.
"""

import json
import sys
import time
from importlib.metadata import version

from hyperqueue import Job, LocalCluster
from hyperqueue.cluster import WorkerConfig


def rate(client, tasks):
    job = Job()
    for _ in range(tasks):
        job.program(["/usr/bin/true"], stdout=None, stderr=None)
    began = time.perf_counter()
    client.wait_for_jobs([client.submit(job)])
    return tasks / (time.perf_counter() - began)


def main(_nothings, processes, runs):
    with LocalCluster() as cluster:
        cluster.start_worker(WorkerConfig(cores=2))
        client = cluster.client()
        rate(client, 20)
        found = {"nothing": [], "process": [rate(client, processes) for _ in range(runs)]}
    print(json.dumps({**found, "versions": {"hyperqueue": version("hyperqueue")}}))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
