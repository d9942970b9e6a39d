"""The numbers that scores are made of: integers in 32 bits, the lowest is the best."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
Scores = NDArray[np.int32]

# A whole resource in a score.
FULL = 1 << 18
# At or above LIMIT a row takes nothing; OUT twice still fits 32 bits.
LIMIT = 1 << 28
OUT = 1 << 29
