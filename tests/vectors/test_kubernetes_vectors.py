"""Kubernetes' own test tables: our engine admits the nodes that its plug-ins admit, and orders them alike.

What differs stands in DIFFERENT with its reason; a case there that came to agree is a failure too.
"""

from __future__ import annotations

import pytest
from tests.vectors import kubernetes

from fairlead.model.policies import FIRST_FIT, PACK, SPREAD, Policy
from fairlead.model.quantities import show_held

FILTERS = {
    "topology_spread_filter",
    "inter_pod_affinity_filter",
    "taint_filter",
    "node_affinity_filter",
    "host_port_filter",
    "resource_fit_filter",
}
ORDERS: dict[str, Policy] = {
    "least_allocated_score": SPREAD,
    "most_allocated_score": PACK,
    "taint_score": FIRST_FIT,
    "node_affinity_score": FIRST_FIT,
}
COMPARED = "a toleration names a taint or its value; taints are not compared as numbers"
DIFFERENT: dict[int, str] = {
    92: COMPARED,
    94: COMPARED,
    113: "a label's value is any text in quotes; a rule that no agent can meet is not an error",
    175: "a node without room for the pod has no score",
    184: "the file lost the empty container, which counts as 100m and 200 MiB there",
    240: COMPARED,
    241: COMPARED,
    246: "the file does not hold the plug-in's arguments, which add an affinity",
    247: "the file does not hold the plug-in's arguments, which add an affinity",
}
CASES = list(enumerate(kubernetes.cases()))


def of_kinds(kinds: set[str]) -> list[object]:
    """The cases of these kinds, as parameters."""
    return [
        pytest.param(number, case, id=kubernetes.title(number, case))
        for number, case in CASES
        if case["kind"] in kinds
    ]


@pytest.mark.parametrize(("number", "case"), of_kinds(FILTERS))
def test_nodes_are_admitted_alike(number: int, case: kubernetes.Case) -> None:
    expected = case["expect"]
    admitted = kubernetes.admitted(number, case)
    if case["kind"] == "topology_spread_filter":
        judged = kubernetes.judged(number, case)
        expected = {node: said for node, said in expected.items() if node in judged}
        admitted = {node: said for node, said in admitted.items() if node in judged}
    assert (admitted == expected) == (number not in DIFFERENT)


@pytest.mark.parametrize(("number", "case"), of_kinds({"resource_fit_filter"}))
def test_what_is_lacking_is_told_with_the_same_amounts(number: int, case: kubernetes.Case) -> None:
    expected = {
        (
            name := each["resource"],
            show_held(name, each["requested"]),
            show_held(name, each["capacity"] - taken),
        )
        for each in case["insufficient"]
        # What would not fit on the idle node is told with all that it has.
        for taken in ([0] if each["requested"] > each["capacity"] else [each["used"]])
    }
    assert kubernetes.lacking(number, case) <= expected
    assert bool(kubernetes.lacking(number, case)) == bool(expected)


@pytest.mark.parametrize(("number", "case"), of_kinds(set(ORDERS)))
def test_nodes_are_ordered_alike(number: int, case: kubernetes.Case) -> None:
    expected = kubernetes.ranked(case["scores"])
    found = kubernetes.order(number, case, ORDERS[case["kind"]])
    assert (found == expected) == (number not in DIFFERENT)
