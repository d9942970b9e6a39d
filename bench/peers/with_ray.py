"""Ray's rates on this machine: tasks that do nothing, and `true` as a process of its own.

Two CPUs on one node, without its dashboard. Prints JSON. Runs in an environment of its own.
"""

import json
import os
import subprocess
import sys
import time

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

import ray


@ray.remote(num_cpus=1)
def nothing():
    """What a task does that does nothing."""


@ray.remote(num_cpus=1)
def process():
    """A process that does nothing."""
    return subprocess.call(["/usr/bin/true"])


def rate(work, tasks):
    began = time.perf_counter()
    ray.get([work.remote() for _ in range(tasks)])
    return tasks / (time.perf_counter() - began)


def main(nothings, processes, runs):
    ray.init(
        num_cpus=2,
        include_dashboard=False,
        object_store_memory=200 << 20,
        _node_ip_address="127.0.0.1",
        log_to_driver=False,
        logging_level="error",
    )
    try:
        rate(nothing, 100)
        found = {
            "nothing": [rate(nothing, nothings) for _ in range(runs)],
            "process": [rate(process, processes) for _ in range(runs)],
        }
    finally:
        ray.shutdown()
    print(json.dumps({**found, "versions": {"ray": ray.__version__}}))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
