"""The store of one server: a SQLite file in its folder.

Decides nothing but how the port's promises are kept on one machine. The leader key is an exclusive lock on a
file beside the database together with a term inside it: the lock keeps a second server out while the first
one lives, and ends with its process; the term, compared in every write's own transaction, refuses whoever lost
the lock without noticing. The write-ahead log is synced at each commit, so what was answered is on the disk.

Each line of ops has a thread and a connection of its own. A lease line thus never waits for a long write, and
a line's ops happen in the order in which they were given, so no older one can come late.
Deliberately absent: a deadline. A local disk answers or fails, and repeats would only queue behind the first.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import shlex
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from fairlead.model.errors import Problem
from fairlead.model.storage import (
    Answer,
    Campaign,
    Commit,
    Committed,
    Deposed,
    Done,
    Elected,
    Fence,
    Follower,
    LeaseOp,
    Load,
    Loaded,
    LogOp,
    Op,
    Put,
    Renew,
    Renewed,
    Resign,
    Trim,
    Unanswered,
    WrongHead,
    check_size,
)
from fairlead.shell.store.identity import Identity, foreign_format, new_identity

DATABASE = "store.db"
LOCK = "store.lock"
RESERVE = "store.reserve"
RESERVE_BYTES = 8 << 20
"""Bytes kept for a Trim on a full disk: the write-ahead log is moved into the database at 4 MiB, and may be
above that by one largest write."""
APPLICATION = 0x46414952
"""Marks our files in SQLite's header, so that another program's database is never taken for a store."""
LARGEST_STORE = 256 << 30
"""Bytes of one database: far above what hot state needs, and a bound on what a leak can take from the disk."""
LOCK_WAIT_S = 5.0
"""How long one line's write waits for the other's: far above the longest fsync seen on a healthy disk."""

SCHEMA = """
CREATE TABLE identity (format INTEGER, oldest_reader INTEGER, site TEXT, generation INTEGER);
CREATE TABLE lead (term INTEGER, address TEXT, head INTEGER);
CREATE TABLE segments (n INTEGER PRIMARY KEY, segment BLOB NOT NULL);
CREATE TABLE kept (key TEXT PRIMARY KEY, value BLOB NOT NULL);
INSERT INTO lead VALUES (0, '', 0);
"""


class SqliteStore:
    """One server's handle on the store in a folder."""

    def __init__(self, folder: Path, identity: Identity, log: sqlite3.Connection, lease: sqlite3.Connection):
        self.site = identity.site
        self.generation = identity.generation
        self._key = LeaderKey(folder / LOCK)
        self._reserve = Reserve(folder / RESERVE)
        self._reserve.make()
        self._term = 0
        self._log = log
        self._lease = lease
        self._log_thread = ThreadPoolExecutor(1, "store-log")
        self._lease_thread = ThreadPoolExecutor(1, "store-lease")

    async def perform(self, op: Op) -> Answer:
        """Do one op; at most one at a time a line."""
        check_size(op)
        loop = asyncio.get_running_loop()
        if isinstance(op, LogOp):
            return await loop.run_in_executor(self._log_thread, self._on_log, op, self._term)
        if isinstance(op, Campaign):
            self._term = 0
        answer = await loop.run_in_executor(self._lease_thread, self._on_lease, op, self._term)
        if isinstance(answer, Elected):
            self._term = answer.fence.term
        return answer

    async def close(self) -> None:
        """Finish what is under way and let go of the folder, and with it of the lead."""
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self._log_thread.shutdown()
        self._lease_thread.shutdown()
        self._log.close()
        self._lease.close()
        self._key.release()

    def _on_log(self, op: LogOp, term: int) -> Answer:
        try:
            match op:
                case Load():
                    return _load(self._log)
                case _ if not self._key.held():
                    return Deposed()
                case Put(values):
                    return _put(self._log, term, values)
                case Commit(n, segment):
                    return _commit(self._log, term, n, segment)
                case Trim(below):
                    return self._trim(term, below)
        except sqlite3.Error as fault:
            return _unanswered(fault)
        except OSError as fault:
            return Unanswered(str(fault))

    def _on_lease(self, op: LeaseOp, term: int) -> Answer:
        try:
            match op:
                case Campaign(address):
                    return self._campaign(address)
                case Renew():
                    leads = self._key.held() and _leads(self._lease, term)
                    return Renewed() if leads else Deposed()
                case Resign():
                    led = self._key.held() and _leads(self._lease, term)
                    self._key.release()
                    return Done() if led else Deposed()
        except sqlite3.Error as fault:
            return _unanswered(fault)
        except OSError as fault:
            return Unanswered(str(fault))

    def _trim(self, term: int, below: int) -> Answer:
        """Trim even on a full disk: what it writes before it frees anything fits into the reserve."""
        try:
            answer = _trim(self._log, term, below)
        except sqlite3.OperationalError as fault:
            if _unanswered(fault) != Unanswered("nospace") or not self._reserve.spend():
                raise
            answer = _trim(self._log, term, below)
            self._log.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._reserve.make()
        return answer

    def _campaign(self, address: str) -> Answer:
        if not self._key.acquire():
            row = self._lease.execute("SELECT address FROM lead").fetchone()
            return Follower(row[0])
        try:
            with _transaction(self._lease):
                self._lease.execute("UPDATE lead SET term = term + 1, address = ?", (address,))
                (term,) = self._lease.execute("SELECT term FROM lead").fetchone()
        except sqlite3.Error:
            self._key.release()  # a lock without a term would keep others out and lead nothing
            raise
        return Elected(Fence(self.site, self.generation, term))


class LeaderKey:
    """An exclusive lock on a file, which tells whoever is refused the process that holds it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: int | None = None

    def acquire(self) -> bool:
        """Take the lock, or keep it; False when another holds it."""
        if self.held():
            return True
        self.release()
        file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as fault:
            os.close(file)
            if isinstance(fault, BlockingIOError):
                return False
            raise
        os.ftruncate(file, 0)
        os.write(file, str(os.getpid()).encode())
        self._file = file
        return True

    def held(self) -> bool:
        """Whether the lock is ours and still that of the file at this path."""
        file = self._file
        if file is None:
            return False
        try:
            return os.path.samestat(os.fstat(file), os.stat(self.path))
        except OSError:  # the file was taken away, or the lease line has just let go of it
            return False

    def release(self) -> None:
        """Let go; harmless when it is not held."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def holder(self) -> int | None:
        """The process that holds the lock, 0 when it has not said yet; None when nobody does."""
        if not self.path.exists():
            return None
        if self.acquire():
            self.release()
            return None
        text = self.path.read_text()
        return int(text) if text.isdigit() else 0


class Reserve:
    """Room on the disk that nobody else can take before we need it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def make(self) -> None:
        """Set it aside; when there is no room for it now, a later Trim will try again."""
        file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(file, 0, RESERVE_BYTES)
        except OSError as fault:
            if fault.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            self.path.unlink()
        finally:
            os.close(file)

    def spend(self) -> bool:
        """Give it back to the disk; False when it was spent before."""
        try:
            self.path.unlink()
        except FileNotFoundError:
            return False
        return True


def open_sqlite(folder: Path, largest: int = LARGEST_STORE) -> SqliteStore | Problem:
    """Open the store in a folder, making both when they are missing."""
    path = folder / DATABASE
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _make_private(path)
        log = _connect(path, largest)
    except (OSError, sqlite3.Error) as fault:
        return _unusable(path, fault)
    try:
        identity = _identify(log, path)
        if isinstance(identity, Identity):
            return SqliteStore(folder, identity, log, _connect(path, largest))
    except (OSError, sqlite3.Error) as fault:
        identity = _unusable(path, fault)
    log.close()
    return identity


def in_use(folder: Path) -> Problem | None:
    """Why a server must not start on this folder: another one runs on it.

    The look takes the lock for a moment: a Campaign at this very instant may find itself a Follower once.
    """
    try:
        holder = LeaderKey(folder / LOCK).holder()
    except OSError as fault:
        return _cannot_open(folder / LOCK, str(fault))
    if holder is None:
        return None
    return Problem(
        code="store_in_use",
        message=f"the store is in use by process {holder}" if holder else "the store is in use",
        why="one folder serves one server at a time",
        where=str(folder),
        fix=f"kill {holder}" if holder else f"fuser -k {folder / LOCK}",
    )


def _unusable(path: Path, fault: Exception) -> Problem:
    """A file that no SQLite reads any more is another matter than one that cannot be reached."""
    if getattr(fault, "sqlite_errorname", "") in ("SQLITE_NOTADB", "SQLITE_CORRUPT"):
        why = f"{fault}; without a backup the site begins anew: its work is lost, and agents join again"
        now, then = (shlex.quote(f"{path.parent}{tail}") for tail in ("", f".damaged-{os.urandom(2).hex()}"))
        return Problem("damaged", f"{path} is damaged", why, fix=f"mv {now} {then}")
    return _cannot_open(path, str(fault))


def _cannot_open(path: Path, why: str) -> Problem:
    return Problem(
        code="store_unusable",
        message="the store cannot be opened",
        why=why,
        where=str(path),
        fix=f"ls -la {path.parent}",
    )


def _make_private(path: Path) -> None:
    """Make a fresh file that only this user reads; SQLite gives what it puts beside it the same mode.

    A file that exists is not even opened: closing it again would drop SQLite's own locks in this process.
    """
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def _connect(path: Path, largest: int) -> sqlite3.Connection:
    connection = sqlite3.connect(path, LOCK_WAIT_S, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        # Some builds overwrite what is deleted with zeros: a Trim would then write as much as it frees.
        connection.execute("PRAGMA secure_delete = OFF")
        (page,) = connection.execute("PRAGMA page_size").fetchone()
        connection.execute(f"PRAGMA max_page_count = {largest // page}")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _identify(connection: sqlite3.Connection, path: Path) -> Identity | Problem:
    """The store's own identity, written first when the file is fresh."""
    with _transaction(connection):
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if not application and not tables:
            _create(connection, new_identity())
        elif application != APPLICATION:
            return _cannot_open(path, "it is a database of another program")
        row = connection.execute("SELECT * FROM identity").fetchone()
    identity = Identity(*row)
    return foreign_format(identity, str(path)) or identity


def _create(connection: sqlite3.Connection, identity: Identity) -> None:
    for statement in filter(None, map(str.strip, SCHEMA.split(";"))):
        connection.execute(statement)
    row = (identity.format, identity.oldest_reader, identity.site, identity.generation)
    connection.execute("INSERT INTO identity VALUES (?, ?, ?, ?)", row)
    connection.execute(f"PRAGMA application_id = {APPLICATION}")


@contextlib.contextmanager
def _transaction(connection: sqlite3.Connection, kind: str = "IMMEDIATE") -> Iterator[None]:
    connection.execute(f"BEGIN {kind}")
    try:
        yield
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _leads(connection: sqlite3.Connection, term: int) -> bool:
    """Whether nobody has won a later term."""
    return bool(connection.execute("SELECT term FROM lead").fetchone() == (term,))


def _load(connection: sqlite3.Connection) -> Answer:
    with _transaction(connection, "DEFERRED"):
        (head,) = connection.execute("SELECT head FROM lead").fetchone()
        values = dict(connection.execute("SELECT key, value FROM kept"))
        segments = connection.execute("SELECT n, segment FROM segments ORDER BY n").fetchall()
    return Loaded(values, segments, head)


def _put(connection: sqlite3.Connection, term: int, values: dict[str, bytes | None]) -> Answer:
    gone = [(key,) for key, value in values.items() if value is None]
    kept = [(key, value) for key, value in values.items() if value is not None]
    with _transaction(connection):
        if not _leads(connection, term):
            return Deposed()
        connection.executemany("DELETE FROM kept WHERE key = ?", gone)
        connection.executemany("INSERT OR REPLACE INTO kept VALUES (?, ?)", kept)
    return Done()


def _commit(connection: sqlite3.Connection, term: int, n: int, segment: bytes) -> Answer:
    with _transaction(connection):
        if not _leads(connection, term):
            return Deposed()
        (head,) = connection.execute("SELECT head FROM lead").fetchone()
        if head == n - 1:
            connection.execute("INSERT INTO segments VALUES (?, ?)", (n, segment))
            connection.execute("UPDATE lead SET head = ?", (n,))
            return Committed(n)
        row = connection.execute("SELECT segment FROM segments WHERE n = ?", (n,)).fetchone()
    if head == n and row == (segment,):
        return Committed(n)
    raise WrongHead(f"segment {n} does not follow head {head}")


def _trim(connection: sqlite3.Connection, term: int, below: int) -> Answer:
    with _transaction(connection):
        if not _leads(connection, term):
            return Deposed()
        connection.execute("DELETE FROM segments WHERE n < ?", (below,))
    return Done()


def _unanswered(fault: sqlite3.Error) -> Unanswered:
    full = getattr(fault, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
    return Unanswered("nospace" if full else str(fault))
