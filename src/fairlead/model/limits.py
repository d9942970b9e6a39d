"""Every limit of the plane: name, unit, reason. What counts in decisions is work, never seconds."""

from __future__ import annotations

from msgspec import Struct

# Rows taken into one step and decisions out of it: more would hold up the lease's renewal.
STEP_ROWS = 2_000
STEP_DECISIONS = 512
# Rows in one order message.
ORDER_ROWS = 1_000
# Bytes of a batch that is not yet durable, above which input waits.
WAITING_BYTES = 8 << 20
# Segments' bytes kept for those who follow; older ones are a resync.
FOLLOW_BYTES = 32 << 20
# A refusal rests its (shape, agent) pair, doubling from the first to the last.
REST_FIRST_MS = 1_000
REST_LAST_MS = 60_000
# More silent agents than this share (in per cent), and than this number, brake every loss by silence.
BRAKE_SHARE = 25
BRAKE_AGENTS = 3
BRAKE_ENDS_SHARE = 5
BRAKE_MS = 600_000
# After a takeover agents need time to come back: so much for each of the roster.
RETURN_MS_PER_AGENT = 6
# Former attempts kept of an instance.
PAST_ATTEMPTS = 10
# How long an idempotency key is remembered.
KEY_MS = 24 * 3_600_000
# So long may nobody wait for a job that is to end when its caller is gone; fronts say so more often.
CALLER_MS = 60_000
ATTEND_MS = 15_000
JOBS_PER_SUBMISSION = 5_000


class Settings(Struct, frozen=True, gc=False):
    """What a site may set, in milliseconds."""

    # Silence after which an overlapping attempt is run again elsewhere.
    lost_after_ms: int = 30_000
    # Contact-free time after which an exclusive attempt is ended on its own machine.
    lease_ms: int = 600_000
    # The leader's lease in the store.
    leader_ms: int = 5_000
    # How long a certificate of an agent or a server holds: a lost machine is shut out within that time.
    certificate_ms: int = 30 * 24 * 3_600_000

    @property
    def beat_ms(self) -> int:
        """How often an agent says something: three silences make a loss."""
        return max(self.lost_after_ms // 3, 100)
