"""The bare skeleton that the whole path is compared with: how fast could any scheduler of this make be here?

Twenty hollow agents in a second process hold one `grpc.aio` stream each, without TLS. The server hands out
instances in batches of protobuf columns, commits what it placed and what ended as one SQLite row (write-ahead
log, synced), one commit in flight while the next one fills, sends and acknowledges only after the commit, and
notes the state of each instance where a reader would find it. There is no model: no jobs, queue, placement,
retries or certificates.

The rate follows what is in flight, agents times slots: compare only with a whole path that has the same.

    python bench/bare.py --instances 200000 --runs 5
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import platform
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

METHOD = "/bare.Agents/Connect"
COLUMNS = ("job", "index", "attempt", "term", "exit", "started", "ended")
PLACED, ENDED = 1, 2
ACK = b"\0"


def _batch_class() -> type[Any]:
    """A message of packed columns, as the real wire has; described here so that nothing need be generated."""
    file = descriptor_pb2.FileDescriptorProto(name="bare.proto", package="bare", syntax="proto3")
    message = file.message_type.add(name="Batch")
    field = descriptor_pb2.FieldDescriptorProto
    for number, name in enumerate(COLUMNS, 1):
        message.field.add(name=name, number=number, label=field.LABEL_REPEATED, type=field.TYPE_UINT64)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("bare.Batch"))


Batch = _batch_class()


def _batch(index: list[int], ended: int = 0) -> bytes:
    count = len(index)
    same = {name: [1] * count for name in ("job", "attempt", "term")}
    times = {name: [ended] * count for name in ("exit", "started", "ended")} if ended else {}
    packed: bytes = Batch(index=index, **same, **times).SerializeToString()
    return packed


class Skeleton:
    """Numbers out, numbers back, each way through one commit."""

    def __init__(self, path: Path, instances: int, agents: int, slots: int) -> None:
        self.next, self.total, self.ended = 0, instances, 0
        self.state = bytearray(instances)
        self.agents, self.slots = agents, slots
        self.free: dict[int, int] = {}
        self.down: dict[int, asyncio.Queue[bytes]] = {}
        self.arrived: list[tuple[int, list[int], bytes]] = []
        self.wake = asyncio.Event()
        self.ready = asyncio.Event()
        self.log = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self.log.executescript("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;")
        self.log.execute("CREATE TABLE segment (n INTEGER PRIMARY KEY, columns BLOB NOT NULL)")
        self.commits = 0

    async def connect(
        self, requests: AsyncIterator[bytes], _context: grpc.aio.ServicerContext[bytes, bytes]
    ) -> AsyncIterator[bytes]:
        """One agent's stream: what it ended comes up, starts and acknowledgements go down."""
        agent = len(self.down)
        queue = self.down[agent] = asyncio.Queue()
        self.free[agent] = self.slots
        if len(self.down) == self.agents:
            self.ready.set()

        async def read() -> None:
            async for message in requests:
                self.arrived.append((agent, list(Batch.FromString(message).index), message))
                self.wake.set()

        async with asyncio.TaskGroup() as group:
            reading = group.create_task(read())
            while message := await queue.get():
                yield message
            reading.cancel()

    def _take(self) -> tuple[list[tuple[int, list[int], bytes]], list[tuple[int, list[int], bytes]]]:
        """What ended since the last commit, and what goes to the room that it left."""
        ended, self.arrived = self.arrived, []
        for agent, index, _ in ended:
            self.free[agent] += len(index)
        placed: list[tuple[int, list[int], bytes]] = []
        for agent, room in self.free.items():
            first, self.next = self.next, min(self.next + room, self.total)
            if self.next > first:
                index = list(range(first, self.next))
                placed.append((agent, index, _batch(index)))
                self.free[agent] -= len(index)
        return ended, placed

    def _commit(self, columns: list[bytes]) -> None:
        self.commits += 1
        self.log.execute("INSERT INTO segment VALUES (?, ?)", (self.commits, b"".join(columns)))

    async def run(self) -> float:
        """All instances, from the first placement to the commit of the last end; in seconds."""
        await self.ready.wait()
        begin = time.perf_counter()
        self.wake.set()
        while self.ended < self.total:
            await self.wake.wait()
            self.wake.clear()
            ended, placed = self._take()
            if not ended and not placed:
                continue
            await asyncio.to_thread(self._commit, [message for _, _, message in [*ended, *placed]])
            for agent, index, message in placed:
                self.down[agent].put_nowait(message)
                for one in index:
                    self.state[one] = PLACED
            for agent, index, _ in ended:
                self.down[agent].put_nowait(ACK)
                self.ended += len(index)
                for one in index:
                    self.state[one] = ENDED
        took = time.perf_counter() - begin
        for queue in self.down.values():
            queue.put_nowait(b"")
        return took


async def _agent(channel: grpc.aio.Channel) -> None:
    """Ends everything at once, a batch as it came."""
    call = channel.stream_stream(METHOD)()
    await call.write(b"")
    async for message in call:
        if message != ACK:
            await call.write(_batch(list(Batch.FromString(message).index), ended=time.time_ns() // 1_000_000))


def _agents(port: int, count: int) -> None:
    async def hold() -> None:
        channels = [
            grpc.aio.insecure_channel(f"127.0.0.1:{port}", [("grpc.use_local_subchannel_pool", 1)])
            for _ in range(count)
        ]
        await asyncio.gather(*(_agent(channel) for channel in channels))
        await asyncio.gather(*(channel.close() for channel in channels))

    asyncio.run(hold())


async def once(instances: int, agents: int, slots: int, folder: Path) -> float:
    """One run in a fresh store with fresh agents; instances a second."""
    skeleton = Skeleton(folder / "bare.db", instances, agents, slots)
    server = grpc.aio.server()
    handler = grpc.stream_stream_rpc_method_handler(skeleton.connect)
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("bare.Agents", {"Connect": handler}),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    process = multiprocessing.get_context("spawn").Process(target=_agents, args=(port, agents), daemon=True)
    process.start()
    took = await skeleton.run()
    await asyncio.to_thread(process.join, 10)
    await server.stop(None)
    skeleton.log.close()
    return instances / took


def fdatasync_ms(folder: Path, times: int = 50) -> float:
    """The machine's own price of making 4 KiB durable."""

    def one(descriptor: int) -> float:
        begin = time.perf_counter()
        os.pwrite(descriptor, b"x" * 4096, 0)
        os.fdatasync(descriptor)
        return (time.perf_counter() - begin) * 1000

    descriptor = os.open(folder / "sync", os.O_CREAT | os.O_WRONLY, 0o600)
    try:
        return statistics.median(one(descriptor) for _ in range(times))
    finally:
        os.close(descriptor)


def in_folder(work: Callable[[Path], float]) -> float:
    """Runs in a temporary folder that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="bare-") as folder:
        return work(Path(folder))


def measure(instances: int, agents: int, slots: int, runs: int) -> dict[str, object]:
    """The row that others are compared with."""
    rates = [
        in_folder(lambda folder: asyncio.run(once(instances, agents, slots, folder))) for _ in range(runs)
    ]
    return {
        "id": "bare",
        "what": f"{agents} hollow agents of {slots} slots, {instances} instances, no TLS, no model",
        "value": round(statistics.median(rates)),
        "unit": "instances/s",
        "spread": [round(min(rates)), round(max(rates))],
        "runs": runs,
        "fdatasync_ms": round(in_folder(fdatasync_ms), 3),
        "versions": {
            "python": platform.python_version(),
            "grpcio": grpc.__version__,
            "sqlite": sqlite3.sqlite_version,
            "kernel": platform.release(),
            "cpus": os.cpu_count(),
        },
    }


def main(arguments: list[str]) -> int:
    """Prints one row as JSON."""
    parser = argparse.ArgumentParser(description="the bare skeleton's rate on this machine")
    parser.add_argument("--instances", type=int, default=200_000)
    parser.add_argument("--agents", type=int, default=20)
    parser.add_argument("--slots", type=int, default=32, help="instances that an agent holds at once")
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args(arguments)
    print(json.dumps(measure(given.instances, given.agents, given.slots, given.runs), indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
