"""At most one process for an attempt, ever; and no two live attempts of one instance but by silence.

An exclusive instance never has two processes at once. Another may, when the machine of the older one was out of
contact for longer than a loss takes; after everything healed the older one dies within seconds.
"""

from __future__ import annotations

from fairlead.sim.checkers.sights import Began, Broken, Contact, Finished, Healed, Tick

SLACK_MS = 1_500
DIES_MS = 5_000

Attempt = tuple[int, int, int, int]


class OneProcess:
    """Watches the process tables of all machines."""

    def __init__(self, lost_after_ms: int, back_ms: int) -> None:
        self.lost_after_ms = lost_after_ms
        # How long after the healing an agent may take to be in contact again.
        self.back_ms = back_ms
        self.started: dict[Attempt, str] = {}
        self.live: dict[tuple[int, int], dict[Attempt, Began]] = {}
        self.contact: dict[str, int] = {}
        self.silence: dict[Attempt, int] = {}
        # The last silence of a machine that was long enough for a loss.
        self.lapse: dict[str, int] = {}
        self.healed = -1
        self.doubled: dict[tuple[int, int], int] = {}
        self.sees = {
            Began: self.began,
            Finished: self.finished,
            Contact: self.heard,
            Healed: self.heal,
            Tick: self.tick,
        }

    def heard(self, sight: Contact) -> None:
        """The longest silence of a machine counts for everything that runs there."""
        before = self.contact.get(sight.place, sight.at)
        self.contact[sight.place] = sight.at
        gap = sight.at - before
        if gap < self.lost_after_ms - SLACK_MS:
            return
        self.lapse[sight.place] = gap
        for attempts in self.live.values():
            for key, began in attempts.items():
                if began.place == sight.place:
                    self.silence[key] = max(self.silence.get(key, 0), gap)

    def began(self, sight: Began) -> None:
        """A start that repeats one, or that doubles one."""
        key = (sight.job, sight.index, sight.attempt, sight.term)
        name = ".".join(map(str, key))
        if key in self.started:
            raise Broken("I2 one process", f"{name} began on {self.started[key]} and again on {sight.place}")
        self.started[key] = sight.place
        others = self.live.setdefault((sight.job, sight.index), {})
        for other, running in others.items():
            where = f"{name} began on {sight.place} while {'.'.join(map(str, other))} runs on {running.place}"
            if sight.exclusive or running.exclusive:
                raise Broken("I2 exclusive", where)
            # The older attempt must have been given up; it may be the one whose order came late.
            older = running if running.attempt < sight.attempt else sight
            gap = max(sight.at - self.contact.get(older.place, sight.at), self.silence.get(other, 0))
            if older is sight:
                gap = max(gap, self.lapse.get(older.place, 0))
            if running.place != sight.place and gap < self.lost_after_ms - SLACK_MS:
                raise Broken("I2 overlap", f"{where}, silent for {gap} ms only")
        others[key] = sight

    def finished(self, sight: Finished) -> None:
        """One less."""
        attempts = self.live.get((sight.job, sight.index), {})
        attempts.pop((sight.job, sight.index, sight.attempt, sight.term), None)
        if not attempts:
            self.live.pop((sight.job, sight.index), None)

    def heal(self, sight: Healed) -> None:
        """From now on copies must go."""
        self.healed = sight.at

    def tick(self, sight: Tick) -> None:
        """No instance stays doubled for long once all is well."""
        if self.healed < 0 or sight.at < self.healed + self.back_ms:
            return
        doubled = {instance for instance, attempts in self.live.items() if len(attempts) > 1}
        self.doubled = {one: self.doubled.get(one, sight.at) for one in sorted(doubled)}
        for (job, index), since in self.doubled.items():
            grace = max(began.at for began in self.live[job, index].values()) + DIES_MS
            if sight.at - since > DIES_MS + 10_000 and sight.at > grace:
                raise Broken("I2 copies die", f"two attempts of {job}/{index} since {since}")
