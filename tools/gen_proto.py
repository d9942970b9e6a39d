"""Writes the Python code of every .proto, or with --check compares what is committed with a fresh run.

The code of the messages alone is generated: a service is a name in a string where it is called or served.
Imports among generated files are made relative, so that they work wherever their package stands.
"""

from __future__ import annotations

import re
import sys
import tempfile
from importlib.resources import files
from pathlib import Path

from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent.parent
PROTO = ROOT / "proto"
PACKAGE = ROOT / "src" / "fairlead" / "shell"
# Where the code of each folder of protos goes.
TARGETS = {"etcd": PACKAGE / "store" / "pb", "fairlead/v1": PACKAGE / "wire" / "pb"}


def generate(folder: str) -> dict[str, str]:
    """The code of one folder of protos, by file name."""
    protos = sorted(path.relative_to(PROTO).as_posix() for path in (PROTO / folder).glob("*.proto"))
    if not protos:
        raise SystemExit(f"proto/{folder} holds no .proto")
    with tempfile.TemporaryDirectory() as out:
        include = files("grpc_tools") / "_proto"
        flags = [f"-I{PROTO}", f"-I{include}", f"--python_out={out}", f"--pyi_out={out}"]
        if protoc.main(["protoc", *flags, *protos]) != 0:
            raise SystemExit(f"protoc refused proto/{folder}")
        written = [*Path(out, folder).glob("*.py"), *Path(out, folder).glob("*.pyi")]
        return {path.name: relative(path.read_text(), folder) for path in written}


def relative(code: str, folder: str) -> str:
    """The same code, with imports from its own folder made relative."""
    package = re.escape(folder.replace("/", "."))
    return re.sub(rf"^from {package} import ", "from . import ", code, flags=re.MULTILINE)


def differences(target: Path, fresh: dict[str, str]) -> list[str]:
    """What a fresh run would change in a folder."""
    stored = {path.name: path.read_text() for path in target.glob("*_pb2*.py*")}
    names = sorted(stored.keys() | fresh.keys())
    return [f"{target.relative_to(ROOT)}/{name}" for name in names if stored.get(name) != fresh.get(name)]


def write(target: Path, fresh: dict[str, str]) -> None:
    """Make a folder hold the fresh code and no other."""
    target.mkdir(parents=True, exist_ok=True)
    for path in target.glob("*_pb2*.py*"):
        if path.name not in fresh:
            path.unlink()
    for name, code in fresh.items():
        (target / name).write_text(code)


def main(arguments: list[str]) -> int:
    """Write everything; with --check only say what differs."""
    if arguments not in ([], ["--check"]):
        print("usage: gen_proto.py [--check]", file=sys.stderr)
        return 2
    stale: list[str] = []
    for folder, target in TARGETS.items():
        fresh = generate(folder)
        if arguments:
            stale += differences(target, fresh)
        else:
            write(target, fresh)
    for path in stale:
        print(f"{path} is not what its .proto gives: run tools/gen_proto.py", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
