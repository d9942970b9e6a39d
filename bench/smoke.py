"""Whether this build still runs an array at a fraction of the bare skeleton's rate that no good change undercuts.

python -m bench.smoke: S3 as it stands in the table; exits 1 below the floor. A ratio, since machines differ.
"""

from __future__ import annotations

import sys

from bench import s3
from bench.how import How

# A quarter of what a two-core machine shows: noise never gets there, a scan for each instance does.
FLOOR = 0.08


def main() -> int:
    """Measure, print, judge."""
    (row,) = s3.rows(How())
    said = f"{row.value:,.0f} instances/s, {row.ratio:.1%} of the bare skeleton's; floor {FLOOR:.0%}"
    print(f"{said} ({row.note})")
    return 0 if row.ratio >= FLOOR else 1


if __name__ == "__main__":
    sys.exit(main())
