"""What a machine has, and how busy it is."""

from __future__ import annotations

import platform
import shutil
from pathlib import Path

import psutil

from fairlead.agent.words import Measured


def totals(folder: Path) -> dict[str, int]:
    """Cores in thousandths, memory and disk in bytes."""
    cores = len(psutil.Process().cpu_affinity() or ()) or psutil.cpu_count() or 1
    return {
        "cpu": cores * 1000,
        "memory": int(psutil.virtual_memory().total),
        "disk": shutil.disk_usage(folder).total,
    }


def labels() -> dict[str, str]:
    """What rules may ask of any machine."""
    return {
        "arch": platform.machine(),
        "os": platform.system().lower(),
        "host": platform.node(),
    }


def measure() -> Measured:
    """Load since the last call."""
    cpu, memory = psutil.cpu_percent(None), psutil.virtual_memory().percent
    return Measured(round(cpu * 10), round(memory * 10))
