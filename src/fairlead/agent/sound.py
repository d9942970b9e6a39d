"""Whether the columns of an order belong together. The wire knows types, not what a row must hold."""

from __future__ import annotations

from fairlead.model.keys import Keys
from fairlead.model.orders import Ack, Beat, Order, Retract, Specs, Start, Stop


def are_sound(keys: Keys) -> bool:
    """Columns of one length, and spans that can exist."""
    rows = len(keys)
    return (
        len(keys.first) == len(keys.count) == len(keys.attempt) == rows
        and min(keys.first, default=0) >= 0
        and min(keys.count, default=1) >= 1
        and min(keys.attempt, default=1) >= 1
    )


def is_sound(order: Order) -> bool:
    """False for an order that no control of ours could have meant."""
    if isinstance(order, Start):
        return are_sound(order.keys) and len(order.spec) == len(order.lease_ms) == len(order.keys)
    if isinstance(order, Stop | Retract | Ack):
        return are_sound(order.keys)
    if isinstance(order, Specs):
        return len(order.hashes) == len(order.bodies)
    return not isinstance(order, Beat) or order.withheld is None or are_sound(order.withheld)
