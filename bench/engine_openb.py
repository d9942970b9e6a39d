"""Q1 and Q2: GPU packing on the openb trace, beside what was published for six policies (FGD, ATC 2023).

Pods of a workload are shuffled and filled up (or thinned out) to 130 % of the GPUs, then submitted one by
one; nothing ends, what does not fit is dropped. The figure is the share of GPU capacity that is allocated
when 130 % have been asked for. Ties go to the lowest rank in one random order of the nodes a run.

Run: python -m bench.engine_openb [--seeds N] [--first S] [--workloads …] [--policies …] [--jobs J]
"""

from __future__ import annotations

import argparse
import csv
import gzip
import multiprocessing
import statistics
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fairlead.base.dice import Dice
from fairlead.model.asks import Ask
from fairlead.model.policies import FIRST_FIT, GPU_PACK, Policy
from fairlead.placement.devices import Taken
from fairlead.placement.place import place
from fairlead.placement.scale import LIMIT
from fairlead.placement.table import AgentTable, Interned

DATA = Path(__file__).parent / "data" / "fgd_openb"
WORKLOADS = ("default", "cpu250", "gpushare100", "gpuspec33", "multigpu50")
RANDOM = "Random"
PUBLISHED: dict[str, Policy] = {
    RANDOM: FIRST_FIT,
    "DotProd": Policy("dot-product", (("dot_product", 1),)),
    "Clustering": Policy("clustering", (("clustering", 1),)),
    "Packing": Policy("shared-first", (("shared_first", 1),)),
    "BestFit": Policy("best-fit", (("best_fit", 1),)),
    "FGD": Policy("fragmentation-whole", (("fragmentation_whole", 1),)),
}
OURS: dict[str, Policy] = {"gpu-pack": GPU_PACK}
MILLI = 1000
MIB = 1 << 20
# The published replay asks for this much of the capacity, and covers so much of the work by typical pods.
DEMAND = 1.3
COVERED = 0.95


class Pod(NamedTuple):
    """One pod of the trace."""

    cpu: int
    memory: int
    gpu: int
    models: str

    def ask(self) -> Ask:
        """In our words."""
        where = (f"model in ({self.models.replace('|', ', ')})",) if self.models else ()
        amounts = (("cpu", self.cpu), ("gpu", self.gpu), ("memory", self.memory * MIB))
        return Ask(tuple(pair for pair in amounts if pair[1]), where=where)


class Result(NamedTuple):
    """One run."""

    workload: str
    policy: str
    seed: int
    allocated: float
    decisions: int
    seconds: float


def read(name: str) -> list[dict[str, str]]:
    """A table of the trace."""
    with gzip.open(DATA / name, "rt") as file:
        return list(csv.DictReader(file))


def pods_of(workload: str) -> list[Pod]:
    """All pods in the order of the file."""
    found = []
    for row in read(f"openb_pod_list_{workload}.csv.gz"):
        each, count = int(row["gpu_milli"] or 0), int(row["num_gpu"] or 0)
        models = row.get("gpu_spec") or ""
        found.append(Pod(int(row["cpu_milli"]), int(row["memory_mib"]), each * count, models))
    return found


def typical(pods: list[Pod]) -> list[tuple[Ask, float]]:
    """The commonest kinds of pods, until they cover most of the work."""
    kinds = Counter(pod._replace(memory=0) for pod in pods)
    chosen, covered = [], 0
    for pod, count in kinds.most_common():
        if covered >= COVERED * len(pods):
            break
        chosen.append((pod, count))
        covered += count
    return [(pod.ask(), count / covered) for pod, count in chosen]


def tuned(pods: list[Pod], capacity: int, dice: Dice) -> list[Pod]:
    """Shuffled, and as many as ask for the demand."""
    pods = shuffled(pods, dice)
    wanted, asked = DEMAND * capacity, sum(pod.gpu for pod in pods)
    while asked > wanted:
        asked -= pods.pop(dice.below(len(pods))).gpu
    origin = list(pods)
    while asked < wanted:
        pod = dice.pick(origin)
        if asked + min(pod.gpu, MILLI) > wanted:
            break
        pods.append(pod)
        asked += pod.gpu
    return pods


def shuffled(items: list[Any], dice: Dice) -> list[Any]:
    """A copy in random order."""
    items = list(items)
    for at in range(len(items) - 1, 0, -1):
        other = dice.below(at + 1)
        items[at], items[other] = items[other], items[at]
    return items


def cluster(policy: Policy, dice: Dice) -> tuple[AgentTable, int]:
    """The nodes, numbered in random order, and how much GPU they have."""
    table, capacity = AgentTable(policy), 0
    for number, node in enumerate(shuffled(read("openb_node_list_gpu_node.csv.gz"), dice), 1):
        gpu = int(node["gpu"]) * MILLI
        capacity += gpu
        totals = {"cpu": int(node["cpu_milli"]), "memory": int(node["memory_mib"]) * MIB, "gpu": gpu}
        table.set_agent(number, totals, {"model": node["model"]})
        table.set_open(number, True)
    return table, capacity


def run(job: tuple[str, str, int]) -> Result:
    """One workload under one policy with one seed."""
    workload, name, seed = job
    dice = Dice(seed)
    table, capacity = cluster((PUBLISHED | OURS)[name], dice.child())
    pods = pods_of(workload)
    if table.states is not None:
        table.states.expect(typical(pods))
    submitted = tuned(pods, capacity, dice.child())
    rolled = dice.child()
    if name == RANDOM:
        table.pick = lambda shape, row: random_devices(table, shape, row, rolled)
    asked = used = 0
    levels = []
    began = time.process_time()
    for pod in submitted:
        shape = table.intern(pod.ask())
        among = [any_of(table, shape, rolled)] if name == RANDOM else None
        if place(table, shape, 1, 1, among=among):
            used += pod.gpu
        asked += pod.gpu
        if round(100 * asked / capacity) == round(100 * DEMAND):
            levels.append(used / capacity)
    seconds = time.process_time() - began
    return Result(workload, name, seed, 100 * statistics.fmean(levels), len(submitted), seconds)


def any_of(table: AgentTable, shape: Interned, dice: Dice) -> int:
    """Any agent that can take it; 0 if none can."""
    table.settle()
    rows = np.flatnonzero(table.columns.of(shape).score < LIMIT)
    return table.numbers[int(rows[dice.below(len(rows))])] if len(rows) else 0


def random_devices(table: AgentTable, shape: Interned, row: int, dice: Dice) -> Taken:
    """Any device with the share free; whole ones are all alike."""
    if shape.device >= MILLI:
        return ()
    free: list[int] = table.devices.free[row].tolist()
    return (dice.pick([at for at, left in enumerate(free) if left >= shape.device]),)


def published() -> dict[tuple[str, str], float]:
    """The published means."""
    with open(DATA / "published_alloc_mean.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    found = {}
    for row in rows:
        for column, mean in row.items():
            if column.endswith("_mean"):
                policy = column.removesuffix("_mean")[3:].removeprefix("Gpu")
                found[row["workload"].removeprefix("openb_pod_list_"), policy] = float(mean)
    return found


def show(results: list[Result], workloads: list[str], policies: list[str]) -> None:
    """Measured mean and deviation beside the published mean; at the end ours against FGD, in pairs."""
    known = published()
    seeds = sorted({result.seed for result in results})
    print(f"\nallocated GPU at 130 % demand, %, seeds {seeds[0]}…{seeds[-1]}: mean ± sd (published)")
    for workload in workloads:
        for policy in policies:
            of = [each for each in results if (each.workload, each.policy) == (workload, policy)]
            values = [each.allocated for each in of]
            mean, deviation = statistics.fmean(values), statistics.pstdev(values)
            rate = sum(each.decisions for each in of) / sum(each.seconds for each in of)
            beside = known.get((workload, policy))
            shown = f"({beside:6.2f}, {mean - beside:+.2f})" if beside is not None else "(ours)"
            print(
                f"{workload:12} {policy:11} {mean:6.2f} ± {deviation:.2f} {shown:18} {rate:8.0f} decisions/s"
            )
    for ours in OURS:
        if ours in policies and "FGD" in policies:
            compare(results, workloads, ours)


def compare(results: list[Result], workloads: list[str], ours: str) -> None:
    """Our policy less FGD, by seed."""
    by = {(each.workload, each.policy, each.seed): each.allocated for each in results}
    seeds = sorted({each.seed for each in results})
    means = []
    for workload in workloads:
        pairs = [by[workload, ours, seed] - by[workload, "FGD", seed] for seed in seeds]
        means.append(statistics.fmean(pairs))
        print(f"{workload:12} {ours} − FGD {means[-1]:+.2f} ± {statistics.pstdev(pairs):.2f}")
    print(f"{'mean':12} {ours} − FGD {statistics.fmean(means):+.2f}")


def main() -> None:
    """Run the grid and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=42)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--workloads", nargs="*", default=list(WORKLOADS))
    parser.add_argument("--policies", nargs="*", default=[*PUBLISHED, *OURS])
    given = parser.parse_args()
    seeds = range(given.first, given.first + given.seeds)
    jobs = [
        (workload, policy, seed)
        for workload in given.workloads
        for policy in given.policies
        for seed in seeds
    ]
    results = []
    with multiprocessing.Pool(given.jobs) as pool:
        for result in pool.imap_unordered(run, jobs):
            results.append(result)
            print(f"\r{len(results)} of {len(jobs)} runs", end="", file=sys.stderr, flush=True)
    show(results, given.workloads, given.policies)


if __name__ == "__main__":
    main()
