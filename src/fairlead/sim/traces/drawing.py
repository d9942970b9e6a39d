"""How a queue went, drawn: for each policy the share of jobs that waited at most so long."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

WIDTH, HEIGHT, MARGIN = 860, 480, 60
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#444444")
POINTS_EACH = 300


def waits_svg(waits: Mapping[str, Sequence[float]], title: str) -> str:
    """Waits in seconds by policy as one picture; time is logarithmic, since waits are."""
    longest = max((max(values, default=1.0) for values in waits.values()), default=1.0)
    decades = max(1, math.ceil(math.log10(max(longest, 10.0))))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}"',
        ' font-family="sans-serif" font-size="13">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{MARGIN}" y="28" font-size="16">{escape(title)}</text>',
        *_axes(decades),
    ]
    for at, (name, values) in enumerate(waits.items()):
        colour = COLOURS[at % len(COLOURS)]
        parts.append(
            f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{_curve(values, decades)}"/>'
        )
        y = HEIGHT - MARGIN - 18 * (len(waits) - at)
        parts.append(f'<text x="{WIDTH - MARGIN - 190}" y="{y}" fill="{colour}">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>", ""])


def _axes(decades: int) -> list[str]:
    parts = []
    for power in range(decades + 1):
        x = _x(10.0**power, decades)
        parts.append(f'<line x1="{x}" y1="{MARGIN}" x2="{x}" y2="{HEIGHT - MARGIN}" stroke="#ddd"/>')
        parts.append(f'<text x="{x}" y="{HEIGHT - MARGIN + 20}" text-anchor="middle">{10**power} s</text>')
    for share in (0, 25, 50, 75, 100):
        y = _y(share / 100)
        parts.append(f'<line x1="{MARGIN}" y1="{y}" x2="{WIDTH - MARGIN}" y2="{y}" stroke="#ddd"/>')
        parts.append(f'<text x="{MARGIN - 8}" y="{y + 4}" text-anchor="end">{share} %</text>')
    middle = WIDTH // 2
    parts.append(f'<text x="{middle}" y="{HEIGHT - 14}" text-anchor="middle">waited at most</text>')
    return parts


def _curve(values: Sequence[float], decades: int) -> str:
    ordered = sorted(values)
    steps = range(0, len(ordered), max(1, len(ordered) // POINTS_EACH))
    places = [*steps, len(ordered) - 1] if ordered else []
    return " ".join(f"{_x(ordered[at], decades)},{_y((at + 1) / len(ordered))}" for at in places)


def _x(seconds: float, decades: int) -> float:
    return round(MARGIN + (WIDTH - 2 * MARGIN) * math.log10(max(seconds, 1.0)) / decades, 1)


def _y(share: float) -> float:
    return round(HEIGHT - MARGIN - (HEIGHT - 2 * MARGIN) * share, 1)
