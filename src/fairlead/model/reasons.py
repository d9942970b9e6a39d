"""Why: the closed vocabulary of refusals and ends.

A reason is a number on the wire and in tables, a word in JSON, and a sentence for people. Numbers are never
reused. Facts travel beside the reason; the sentence is made at the edge.
"""

from __future__ import annotations

from enum import IntEnum


class Reason(IntEnum):
    """What stands behind a state, an outcome or a refusal."""

    none = 0
    # How an attempt ended.
    exited = 1
    signalled = 2
    run_limit = 3
    output_limit = 4
    out_of_memory = 5
    not_found = 6
    not_executable = 7
    no_such_dir = 8
    spawn_failed = 9
    cancelled_by_user = 10
    caller_gone = 11
    agent_dead = 12
    agent_silent = 13
    keeper_lost = 14
    vanished = 15
    lease_ended = 16
    spool_full = 17
    need_failed = 18
    pending_limit = 19
    # Why an agent refused a start.
    agent_full = 30
    agent_unfit = 31
    agent_leaving = 32
    superseded = 33
    unknown_spec = 34
    # Why a lot waits, or can never run.
    no_agents = 50
    too_little = 51
    rule_not_met = 52
    agent_not_ready = 53
    resting = 54
    parallel = 55
    needs_wait = 56
    unclaimed = 57
    tainted = 58
    scattered = 59
    port_taken = 60
    pool_empty = 61
    ends_too_soon = 62
    no_equipment = 63
    not_near = 64
    too_near = 65
    uneven = 66
    quota = 67


SENTENCES: dict[Reason, str] = {
    Reason.none: "",
    Reason.exited: "the command exited with {exit}",
    Reason.signalled: "the command was ended by signal {signal}",
    Reason.run_limit: "the run limit passed",
    Reason.output_limit: "the output limit was passed",
    Reason.out_of_memory: "the memory limit was passed and the kernel ended it",
    Reason.not_found: "the command was not found",
    Reason.not_executable: "the command is not executable",
    Reason.no_such_dir: "the working folder does not exist on the agent",
    Reason.spawn_failed: "the agent could not start the process",
    Reason.cancelled_by_user: "it was cancelled",
    Reason.caller_gone: "its caller went away",
    Reason.agent_dead: "its agent died",
    Reason.agent_silent: "its agent fell silent",
    Reason.keeper_lost: "the agent's keeper died",
    Reason.vanished: "the agent came back without it",
    Reason.lease_ended: "its lease ran out without contact",
    Reason.spool_full: "the agent's disk for output was full",
    Reason.need_failed: "a job that it needs did not succeed",
    Reason.pending_limit: "it waited longer than its pending limit",
    Reason.agent_full: "the agent had no room",
    Reason.agent_unfit: "the agent is not fit for work",
    Reason.agent_leaving: "the agent is leaving",
    Reason.superseded: "the agent holds an equal or newer attempt",
    Reason.unknown_spec: "the agent does not know what to run",
    Reason.no_agents: "no agent has joined yet",
    Reason.too_little: "too little {resource}",
    Reason.rule_not_met: "no match for {rule}",
    Reason.agent_not_ready: "the agent is {presence}",
    Reason.resting: "the agent refused it a moment ago",
    Reason.parallel: "as many as `parallel` allows are running",
    Reason.needs_wait: "it waits for {needs}",
    Reason.unclaimed: "nobody knows this attempt any more",
    Reason.tainted: "the agent is tainted {taint}",
    Reason.scattered: "enough {resource} is free, but not {kind}",
    Reason.port_taken: "{resource} is taken",
    Reason.pool_empty: "the cluster has too little {resource}",
    Reason.ends_too_soon: "the agent ends before the run limit would",
    Reason.no_equipment: "the agent has none of the equipment claimed free",
    Reason.not_near: "nobody it wants to be near is in the {by}",
    Reason.too_near: "somebody it has to be apart from is in the {by}",
    Reason.uneven: "the {by} already has more than the others",
    Reason.quota: "the quota of {tenant} for {resource} is used up",
}
