"""Kubernetes' test tables in our words. Thin: nothing is decided here.

A pod becomes an ask, a node an agent, a namespace one more label of the job. Effects of taints and the
addresses of host ports become part of the name; who wants a port on every address takes all there is of it.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

from fairlead.model.asks import Ask, Neighbours, Prefer, Spread
from fairlead.model.policies import PACK, Policy
from fairlead.model.rules import Rule, matches, parse_rule
from fairlead.placement.place import explain, place
from fairlead.placement.table import AgentTable

Case = dict[str, Any]
FILE = Path(__file__).parent.parent / "data" / "vectors" / "k8s_vectors.json.gz"
NOBODY = "no.such.label exists"
ANYBODY = "not no.such.label exists"
EVERY_ADDRESS = 1000
# What the extraction dropped from a case: nodes that stand in its source.
LOST_NODES: dict[int, list[Case]] = {47: [{"name": "node2", "labels": {}}]}


def cases() -> list[Case]:
    """All cases; a case's number is its place in the file."""
    with gzip.open(FILE) as file:
        found: list[Case] = json.load(file)
    return found


def title(number: int, case: Case) -> str:
    return f"{number}-{case['name'][:60]}"


def rule_of(expressions: list[Case] | None) -> str:
    """A selector; none means nobody, an empty one everybody."""
    if expressions is None:
        return NOBODY
    return " and ".join(_test(each) for each in expressions) or ANYBODY


def _test(each: Case) -> str:
    key, op = each["key"], each["op"]
    values = ", ".join(f'"{value}"' for value in each.get("values") or [])
    if op in ("Gt", "Lt"):
        return f"{key} {'>' if op == 'Gt' else '<'} {each['values'][0]}"
    if op in ("Exists", "DoesNotExist"):
        return f"{'not ' if op == 'DoesNotExist' else ''}{key} exists"
    if not values:
        return NOBODY
    return f"{key} {'not ' if op == 'NotIn' else ''}in ({values})"


def _term(term: Any) -> str:
    """One alternative of a node affinity."""
    if isinstance(term, dict):
        fields = [{**each, "key": "node.name"} for each in term.get("fields") or []]
        term = [*(term.get("expressions") or []), *fields]
    return f"({rule_of(term)})" if term else NOBODY


def where_of(pod: Case) -> tuple[str, ...]:
    rules = [f'{key} == "{value}"' for key, value in (pod.get("node_selector") or {}).items()]
    terms = pod.get("node_affinity_required")
    if terms is not None:
        rules.append(" or ".join(_term(term) for term in terms) or NOBODY)
    return tuple(rules)


def _amounts(container: Case) -> Counter[str]:
    found: Counter[str] = Counter()
    for name, amount in container.items():
        found["cpu" if name == "cpu_milli" else name] += _number(name, amount)
    return found


def _number(name: str, amount: Any) -> int:
    """A quantity as Kubernetes writes it: `250m`, `1000Mi`, a bare number."""
    if isinstance(amount, int):
        return amount
    for suffix, size in (("Ki", 1 << 10), ("Mi", 1 << 20), ("Gi", 1 << 30), ("m", 1)):
        if amount.endswith(suffix):
            return int(amount.removesuffix(suffix)) * size
    return int(amount) * (1000 if name == "cpu" else 1)


def resources_of(pod: Case, counts_pods: bool) -> Counter[str]:
    """Containers add up, an init container runs before them, overhead is on top."""
    total: Counter[str] = Counter()
    for container in pod.get("containers") or []:
        total += _amounts(container)
    for container in pod.get("init_containers") or []:
        total |= _amounts(container)
    total += _amounts(pod.get("overhead") or {})
    if counts_pods:
        total["pods"] = 1
    return total + ports_of(pod)


def ports_of(pod: Case) -> Counter[str]:
    found: Counter[str] = Counter()
    for text in pod.get("host_ports") or []:
        protocol, address, port = text.split("/")
        name = f"port.{protocol}.{port}"
        if address == "0.0.0.0":
            found[name] = EVERY_ADDRESS
        else:
            found[name] += 1
            found[f"{name}.{address}"] = 1
    return found


def labels_of(pod: Case) -> dict[str, str]:
    return {**(pod.get("labels") or {}), "namespace": pod.get("namespace") or "default"}


def _meant(term: Case, pod: Case, namespaces: Case) -> str:
    """Whom a term about neighbours means: its selector, in its namespaces."""
    names = set(term.get("namespaces") or [])
    wanted = term.get("namespace_selector")
    if wanted is not None:
        if not wanted:
            return f"({rule_of(term.get('selector'))})"
        names |= {name for name, labels in namespaces.items() if _selects(wanted, labels)}
    if not names and wanted is None:
        names = {labels_of(pod)["namespace"]}
    here = ", ".join(f'"{name}"' for name in sorted(names))
    return f"({rule_of(term.get('selector'))}) and {f'namespace in ({here})' if names else NOBODY}"


def _selects(wanted: list[Case], labels: dict[str, str]) -> bool:
    rule = parse_rule(rule_of(wanted))
    assert isinstance(rule, Rule)
    return matches(rule, labels)


def ask_of(pod: Case, case: Case) -> Ask:
    namespaces = case.get("namespace_labels") or {}
    near = [_meant(term, pod, namespaces) for term in pod.get("affinity_required") or []]
    # There one pod has to meet all terms at once; here each rule is met by itself.
    together = " and ".join(near)
    counts_pods = any("pods" in (node.get("capacity") or {}) for node in case["nodes"])
    return Ask(
        tuple(sorted(resources_of(pod, counts_pods).items())),
        where=where_of(pod),
        tolerate=tuple(_tolerated(pod)),
        prefer=tuple(_preferred(pod, case)),
        near=tuple(
            Neighbours(together, term.get("topology_key", "")) for term in pod.get("affinity_required") or []
        ),
        apart=tuple(
            Neighbours(_meant(term, pod, namespaces), term.get("topology_key", ""))
            for term in pod.get("anti_affinity_required") or []
        ),
        spread=tuple(
            Spread(
                each["topology_key"],
                f'({rule_of(each.get("selector"))}) and namespace == "{labels_of(pod)["namespace"]}"',
                each["max_skew"],
                each.get("min_domains") or 0,
            )
            for each in pod.get("spread") or []
            if each["when"] == "DoNotSchedule"
        ),
        labels=tuple(sorted(labels_of(pod).items())),
    )


def _tolerated(pod: Case) -> list[str]:
    found = []
    for each in pod.get("tolerations") or []:
        effects = [each["Effect"]] if each.get("Effect") else ["NoSchedule", "NoExecute"]
        for effect in effects:
            if not each.get("Key"):
                found.append("*")
            elif each.get("Operator") == "Exists":
                found.append(f"{effect}/{each['Key']}")
            else:
                found.append(f"{effect}/{each['Key']}={each.get('Value', '')}")
    return found


def _soft(taint: Case) -> str:
    return f"soft.{taint['Key']}.{taint.get('Value', '')}"


def _preferred(pod: Case, case: Case) -> list[Prefer]:
    """Preferred node affinity; and each soft taint that is not tolerated counts against its node."""
    found = [
        Prefer(rule_of(each["term"]), each["weight"])
        for each in pod.get("node_affinity_preferred") or []
        if each["term"]
    ]
    soft = [taint for node in case["nodes"] for taint in node.get("taints") or []]
    tolerated = [
        (each.get("Key"), each.get("Value", "") if each.get("Operator") != "Exists" else None)
        for each in pod.get("tolerations") or []
        if each.get("Effect") in (None, "", "PreferNoSchedule")
    ]
    names = {
        _soft(taint)
        for taint in soft
        if taint["Effect"] == "PreferNoSchedule"
        and not any(
            key == taint["Key"] and value in (None, taint.get("Value", "")) for key, value in tolerated
        )
    }
    return found + [Prefer(f'"{name}" exists'.replace('"', ""), -1) for name in sorted(names)]


def world_of(number: int, case: Case, policy: Policy = PACK) -> tuple[AgentTable, dict[str, int]]:
    """The nodes and what runs on them; nodes by name to their agents' numbers."""
    table = AgentTable(policy)
    nodes = case["nodes"] + LOST_NODES.get(number, [])
    numbers = {node["name"]: at for at, node in enumerate(nodes, 1)}
    ports = set()
    for pod in [case["pod"], *(case.get("existing") or [])]:
        ports |= set(ports_of(pod))
    for node in nodes:
        totals = {
            **_amounts(node.get("capacity") or {}),
            **{port: 1 if port.count(".") > 2 else EVERY_ADDRESS for port in ports},
        }
        labels = {**(node.get("labels") or {}), "node.name": node["name"]}
        taints = node.get("taints") or []
        labels |= {_soft(taint): "true" for taint in taints if taint["Effect"] == "PreferNoSchedule"}
        hard = [
            f"{taint['Effect']}/{taint['Key']}={taint.get('Value', '')}"
            for taint in taints
            if taint["Effect"] != "PreferNoSchedule"
        ]
        table.set_agent(numbers[node["name"]], totals, labels, hard)
        table.set_open(numbers[node["name"]], True)
    for pod in case.get("existing") or []:
        # A pod that ends counts no more for anybody's rules about neighbours.
        if not pod.get("terminating"):
            node = pod.get("node") or nodes[0]["name"]
            table.take(table.intern(ask_of(pod, case)), numbers[node], 1)
    return table, numbers


def admitted(number: int, case: Case) -> dict[str, str]:
    """Per node of the case, whether the pod may go there."""
    found = {}
    for node in case["nodes"]:
        table, numbers = world_of(number, case)
        shape = table.intern(ask_of(case["pod"], case))
        placed = place(table, shape, 1, 1, among=[numbers[node["name"]]])
        found[node["name"]] = "ok" if placed else "reject"
    return found


def judged(number: int, case: Case) -> set[str]:
    """Nodes that the case's own filter decides about: in the tables of spread, others filter some before."""
    table, numbers = world_of(number, case)
    shape = table.intern(ask_of(case["pod"], case))
    out = ~table.meets(shape)
    for _, tainted in table.marks.untolerated(shape.ask.tolerate, len(table)):
        out |= tainted
    return {node["name"] for node in case["nodes"] if not out[table.rows[numbers[node["name"]]]]}


def lacking(number: int, case: Case) -> set[tuple[str, str, str]]:
    """What the verdict says there is too little of: (resource, asked, free, or all there is), as people read it."""
    table, _ = world_of(number, case)
    verdict = explain(table, table.intern(ask_of(case["pod"], case)), {})
    return {
        (blocker.facts["resource"], blocker.facts["asked"], blocker.facts["best"])
        for blocker in verdict.blockers
    }


def order(number: int, case: Case, policy: Policy) -> list[list[str]]:
    """The nodes by our score, best first, equals together."""
    table, numbers = world_of(number, case, policy)
    score = table.columns.of(table.intern(ask_of(case["pod"], case))).score
    return ranked({name: -int(score[table.rows[at]]) for name, at in numbers.items()})


def ranked(scores: dict[str, int]) -> list[list[str]]:
    """Names by score, highest first, equals together."""
    found: dict[int, list[str]] = {}
    for name, score in scores.items():
        found.setdefault(score, []).append(name)
    return [sorted(found[score]) for score in sorted(found, reverse=True)]
