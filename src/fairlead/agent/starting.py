"""Makes processes of attempts: command, folders and environment, from the spec and from who they are."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import MsgspecError

from fairlead.agent.attempts import Attempt, write_note
from fairlead.agent.words import Settings, Spawn
from fairlead.base.ids import job_id
from fairlead.model.jobs import JobSpec, decode_spec

# Specs kept beyond those that held attempts name, the newest of them.
KEPT_SPECS = 1_000


def spell_cores(thousandths: int) -> str:
    """`2`, `0.5`: cores as people write them."""
    whole, rest = divmod(thousandths, 1000)
    return str(whole) if not rest else f"{whole}.{rest:03d}".rstrip("0")


class Shelf:
    """The specs that control has sent, by hash."""

    def __init__(self) -> None:
        self._specs: dict[str, JobSpec] = {}

    def get(self, name: str) -> JobSpec | None:
        """The spec of that hash, if it was sent and could be read."""
        return self._specs.get(name)

    def learn(self, names: list[str], bodies: list[bytes]) -> None:
        """Keep these; one that a later release wrote stays unknown."""
        for name, body in zip(names, bodies, strict=True):
            try:
                self._specs[name] = decode_spec(body)
            except MsgspecError:
                self._specs.pop(name, None)

    def trim(self, used: Iterable[str]) -> None:
        """Forget the oldest, but for those in use."""
        if len(self._specs) > 2 * KEPT_SPECS:
            named = set(used)
            for name in list(self._specs)[:-KEPT_SPECS]:
                if name not in named:
                    del self._specs[name]


class Spawning:
    """The processes of one spec that one step starts."""

    __slots__ = ("_settings", "_spawn", "_spec")

    def __init__(self, spec: JobSpec, settings: Settings) -> None:
        self._spec = spec
        self._settings = settings
        ask = spec.ask
        self._spawn = Spawn(
            argv=spec.command,
            limit_ms=spec.run_ms,
            grace_ms=spec.grace_ms,
            cpu=ask.get("cpu", 0),
            memory=ask.get("memory", 0),
            key=[],
            workspace=[],
            cwd=[],
            environment=[],
            out=[],
            err=[],
            meta=[],
            lease_until=[],
        )

    def add(self, attempt: Attempt, lease_until: int, wall: int) -> None:
        """One more attempt of it."""
        spawn, settings = self._spawn, self._settings
        key = attempt.key
        workspace = "" if self._spec.dir else f"{settings.attempts}/{key}"
        spawn.key.append(key)
        spawn.workspace.append(workspace)
        spawn.cwd.append(self._spec.dir or workspace)
        spawn.environment.append(self._environment(attempt, workspace, wall))
        spawn.out.append(f"{settings.spool}/{key}.out")
        spawn.err.append("" if self._spec.merge_output else f"{settings.spool}/{key}.err")
        spawn.meta.append(write_note(attempt.note))
        spawn.lease_until.append(lease_until)

    def done(self) -> Spawn:
        """The effect; nothing may be added afterwards."""
        return self._spawn

    def _environment(self, attempt: Attempt, workspace: str, wall: int) -> dict[str, str]:
        spec, note = self._spec, attempt.note
        base = self._settings.inherited if spec.inherit_env else self._settings.environment
        environment = {**base, **spec.env}
        environment["FAIRLEAD_JOB"] = job_id(note.job)
        environment["FAIRLEAD_INDEX"] = str(note.index)
        environment["FAIRLEAD_COUNT"] = str(spec.count)
        environment["FAIRLEAD_ATTEMPT"] = str(note.number)
        environment["FAIRLEAD_TERM"] = str(note.term)
        environment["FAIRLEAD_AGENT"] = self._settings.name
        environment["FAIRLEAD_CPUS"] = spell_cores(spec.ask.get("cpu", 0))
        environment["FAIRLEAD_WORKSPACE"] = workspace or spec.dir
        if spec.run_ms:
            environment["FAIRLEAD_ENDS_AT"] = str((wall + spec.run_ms) // 1000)
        return environment
