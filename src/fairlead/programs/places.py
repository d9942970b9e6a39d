"""Where things lie in the folders of servers and agents, and how addresses are written."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

DEFAULT_LISTEN = "127.0.0.1:7410"


def split_listen(text: str) -> tuple[str, int]:
    """HOST[:PORT], [HOST]:PORT or :PORT."""
    text = text or DEFAULT_LISTEN
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        return text.strip("[]"), 7410
    return host.strip("[]") or "127.0.0.1", int(port)


def join_host(host: str, port: int) -> str:
    """The other way round."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def write_json(path: Path, content: Any) -> None:
    """Whole or not at all."""
    fresh = path.with_name(path.name + ".new")
    fresh.write_text(json.dumps(content, indent=2) + "\n")
    os.replace(fresh, path)


def read_json(path: Path) -> Any:
    """What was written, or None."""
    try:
        return json.loads(path.read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return None


def told_options(kind: type[T], told: Mapping[str, Any]) -> T:
    """What a program was told, without what it does not ask for; nothing said is the default."""
    assert is_dataclass(kind)
    names = {field.name for field in fields(kind)}
    made: T = kind(**{name: value for name, value in told.items() if name in names and value is not None})
    return made
