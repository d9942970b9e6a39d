"""The decisions of one agent: what it starts, what it refuses, how an attempt ended, what it tells control.

It says nothing to control before its keeper has listed what runs, so a report is always the truth of this
machine. What ended is told on every new session until its end, and then its output, are acknowledged.
Nothing from outside makes it raise: frames that make no sense end their session.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fairlead.agent.admission import MOST_ATTEMPTS, Room, gaps
from fairlead.agent.attempts import FAILED_EXITS, Attempt, Attempts, End, Note, judge, read_note
from fairlead.agent.contact import Contact
from fairlead.agent.leaving import Goodbye
from fairlead.agent.output import Flow, Output
from fairlead.agent.sound import is_sound
from fairlead.agent.starting import Shelf, Spawning
from fairlead.agent.telling import Telling
from fairlead.agent.words import (
    Dialled,
    Dropped,
    Effect,
    Event,
    Exit,
    FenceKept,
    Forget,
    Grew,
    Heard,
    KeeperEnded,
    KeeperFailed,
    KeeperListed,
    KeeperLost,
    KeeperStarted,
    KillProcess,
    LeaveKeeper,
    Measured,
    MoveDeadline,
    Outcome,
    OutputDialled,
    OutputDropped,
    OutputStored,
    OutputUnreadable,
    Settings,
    StopAsked,
    StopProcess,
    Why,
)
from fairlead.base.dice import Dice
from fairlead.model.lifecycles import Outcome as Ending
from fairlead.model.lifecycles import Stage
from fairlead.model.orders import (
    Ack,
    Beat,
    How,
    Load,
    Order,
    Retract,
    Specs,
    Start,
    Stop,
    Welcome,
    What,
)
from fairlead.model.reasons import Reason

# Progress is told no sooner than this after it began to wait: a start and its end are then one frame.
STAGES_MS = 10
# Above this share of the spool, in per cent, nothing new is taken.
SPOOL_SHARE = 80


class Agent:
    """One agent behind one door: `step`."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._effects: list[Effect] = []
        self._contact = Contact(settings, self._effects)
        self._output = Output(Dice(settings.seed ^ 1), self._effects)
        self._output.addresses = settings.output
        self._attempts = Attempts()
        self._room = Room(settings.names, settings.totals)
        self._specs = Shelf()
        self._telling = Telling()
        # When stages that nothing else gave cause to say are said.
        self._speak_at: int | None = None
        # Live attempts that hold a lease, and when it was last moved.
        self._leased: dict[str, Attempt] = {}
        self._moved_at = 0
        # The keeper answers; without it nothing is started.
        self._keeper = False
        # Control gives this agent no work.
        self._unfit = False
        self._goodbye = Goodbye()
        self._now = self._wall = 0
        self._events: dict[type, Callable[[Any], None]] = {
            Dialled: lambda event: self._contact.dialled(event.session, self._now),
            Heard: self._heard,
            Dropped: lambda event: self._contact.dropped(event.session, self._now),
            FenceKept: lambda event: self._act(self._contact.fence_kept(event.fence, self._now)),
            KeeperListed: self._listed,
            KeeperStarted: self._started,
            KeeperFailed: self._failed,
            KeeperEnded: self._ended,
            KeeperLost: self._keeper_lost,
            Grew: self._grew,
            OutputUnreadable: self._unreadable,
            OutputDialled: lambda event: self._output.dialled(event.link, self._now),
            OutputDropped: lambda event: self._output.dropped(event.link, self._now),
            OutputStored: self._stored,
            Measured: self._measured,
            StopAsked: self._stop_asked,
        }
        self._orders: dict[type, Callable[[Any], None]] = {
            Welcome: self._welcomed,
            Specs: self._learn,
            Start: self._start,
            Stop: self._stop,
            Retract: self._retract,
            Ack: self._acknowledged,
            Beat: self._beat,
        }

    def step(self, events: Sequence[Event], now: int, wall: int) -> Outcome:
        """Take events in, give effects out; call again at the deadline at the latest."""
        self._now, self._wall = now, wall
        for event in events:
            self._events[type(event)](event)
        self._contact.run(now)
        self._output.addresses = self._contact.output
        self._output.run(now)
        self._finish_output()
        self._speak()
        self._go()
        effects = list(self._effects)
        self._effects.clear()
        leaving = self._goodbye.deadline(self._attempts.live)
        deadlines = (self._contact.deadline(), self._output.deadline(), leaving, self._speak_at)
        return Outcome(effects, min((at for at in deadlines if at is not None), default=None))

    # Control.

    def _heard(self, event: Heard) -> None:
        self._act(self._contact.heard(event.session, event.frame, self._now))

    def _act(self, orders: list[Order]) -> None:
        for order in orders:
            if not is_sound(order):
                self._contact.hang_up(self._now)
                return
            self._orders[type(order)](order)

    def _welcomed(self, order: Welcome) -> None:
        self._unfit = bool(order.refusal)
        if self._unfit:
            self._end_all(Reason.agent_unfit)
        self._report()

    def _report(self) -> None:
        """All that is held. What was about to be said is in it, or was soft."""
        self._telling = telling = Telling()
        for attempt in self._attempts:
            note = attempt.note
            facts = (note.term, attempt.stage, note.spec)
            telling.report.add(note.job, note.index, 1, note.number, *facts)
            if attempt.end is not None and not attempt.end_known:
                self._tell_end(attempt, attempt.end)
            flow = self._output.flows.get(attempt.key)
            if flow is not None and flow.done and any(flow.length) and not attempt.output_known:
                self._tell_output(attempt, flow)
        telling.reported = len(self._attempts)
        if self._goodbye.asked:
            telling.others.append(self._goodbye.word())

    def _learn(self, order: Specs) -> None:
        self._specs.learn(order.hashes, order.bodies)
        self._specs.trim(attempt.note.spec for attempt in self._attempts)

    def _start(self, order: Start) -> None:
        spawns: dict[str, Spawning] = {}
        why = self._refuses()
        for span, name, lease_ms in zip(order.keys.spans(), order.spec, order.lease_ms, strict=True):
            job, _, _, number = span
            spec = self._specs.get(name)
            for first, count in self._free_of(span):
                if why or spec is None:
                    self._telling.refused.add(job, first, count, number, why or Reason.unknown_spec)
                    continue
                spawning = spawns.get(name) or spawns.setdefault(name, Spawning(spec, self._settings))
                ask = list(spec.ask.items())
                fits = self._room.fits(ask, min(count, MOST_ATTEMPTS - len(self._attempts)))
                for index in range(first, first + fits):
                    term = self._contact.term
                    note = Note(job, index, number, term, name, lease_ms, spec.output_bytes, ask)
                    self._begin(Attempt(note), spawning)
                if fits < count:
                    self._telling.refused.add(job, first + fits, count - fits, number, Reason.agent_full)
        self._effects.extend(spawn for spawn in (one.done() for one in spawns.values()) if spawn.key)

    def _refuses(self) -> Reason:
        if self._goodbye.asked:
            return Reason.agent_leaving
        if self._unfit or not self._keeper:
            return Reason.agent_unfit
        if self._output.held * 100 >= self._settings.spool_bytes * SPOOL_SHARE:
            return Reason.spool_full
        return Reason.none

    def _free_of(self, span: tuple[int, int, int, int]) -> list[tuple[int, int]]:
        """What of a span may start; a repeat is passed over, an older number is refused."""
        job, first, count, number = span
        taken: list[int] = []
        older: list[Attempt] = []
        for index in self._attempts.indices(job, first, count):
            attempt = self._attempts.highest(job, index)
            if attempt.note.number < number:
                older.append(attempt)
                continue
            taken.append(index)
            if (attempt.note.number, attempt.note.term) != (number, self._contact.term):
                self._telling.refused.add(job, index, 1, number, Reason.superseded)
        self._end(older, How.kill, Reason.superseded)
        return gaps(first, count, taken)

    def _begin(self, attempt: Attempt, spawning: Spawning) -> None:
        note = attempt.note
        self._attempts.add(attempt)
        self._room.take(note.ask)
        self._telling.stages.add(note.job, note.index, 1, note.number, Stage.starting, self._wall)
        until = 0
        if note.lease_ms:
            self._leased[attempt.key] = attempt
            until = self._contact.contact_at + note.lease_ms
        spawning.add(attempt, until, self._wall)

    def _stop(self, order: Stop) -> None:
        named = [attempt for span in order.keys.spans() for attempt in self._attempts.of_span(*span)]
        try:
            reason = Reason(order.reason)
        except ValueError:
            reason = Reason.cancelled_by_user
        self._end(named, order.how, reason)

    def _end_all(self, reason: Reason) -> None:
        self._end(list(self._attempts), How.stop, reason)

    def _end(self, attempts: Sequence[Attempt], how: How, reason: Reason) -> None:
        """Order these to end, unless they were ordered so already."""
        ordered = [attempt for attempt in attempts if attempt.order(how, reason)]
        for attempt in ordered:
            note = attempt.note
            self._telling.stages.add(note.job, note.index, 1, note.number, Stage.ending, self._wall)
        if ordered:
            keys = [attempt.key for attempt in ordered]
            self._effects.append(StopProcess(keys) if how == How.stop else KillProcess(keys))

    def _retract(self, order: Retract) -> None:
        """Whatever is held has been given to the keeper; what is not held will not start any more."""
        for job, first, count, number in order.keys.spans():
            held = [attempt.note.index for attempt in self._attempts.of_span(job, first, count, number)]
            for index in held:
                self._telling.retracted.add(job, index, 1, number, 0)
            for start, free in gaps(first, count, held):
                self._telling.retracted.add(job, start, free, number, 1)

    def _acknowledged(self, order: Ack) -> None:
        # One acknowledgement may name an attempt twice: its end was told twice before it was heard.
        over: dict[str, Attempt] = {}
        for span in order.keys.spans():
            for attempt in self._attempts.of_span(*span):
                if attempt.end is None:
                    continue
                attempt.end_known |= order.what == What.end
                attempt.output_known |= order.what == What.output
                if attempt.over:
                    over[attempt.key] = attempt
        self._forget(list(over.values()))

    def _forget(self, attempts: Sequence[Attempt]) -> None:
        for attempt in attempts:
            self._attempts.drop(attempt)
            self._output.drop(attempt.key)
        if attempts:
            self._effects.append(Forget([attempt.key for attempt in attempts]))

    def _beat(self, order: Beat) -> None:
        """Control heard us: leases that it does not withhold run anew from when we spoke."""
        contact_at = self._contact.contact_at
        if not self._leased or contact_at <= self._moved_at:
            return
        self._moved_at = contact_at
        spans = order.withheld.spans() if order.withheld is not None else ()
        withheld = {attempt.key for span in spans for attempt in self._attempts.of_span(*span)}
        moved = [attempt for key, attempt in self._leased.items() if key not in withheld]
        if moved:
            keys = [attempt.key for attempt in moved]
            until = [contact_at + attempt.note.lease_ms for attempt in moved]
            self._effects.append(MoveDeadline(keys, until))

    # Keeper.

    def _listed(self, event: KeeperListed) -> None:
        self._keeper = True
        for key, text in event.meta.items():
            self._recall(key, text)
        self._started(event.running)
        self._ended(event.ended)
        self._failed(event.failed)
        for attempt in list(self._attempts):
            if attempt.key not in event.meta and attempt.end is None:
                self._close(attempt, Why.abandoned, (0, 0), (attempt.started, self._wall), (0, 0))
        for how, make in ((How.stop, StopProcess), (How.kill, KillProcess)):
            ordered = [one.key for one in self._attempts if one.end is None and one.how == how]
            if ordered:
                self._effects.append(make(ordered))
        self._contact.start(self._now)

    def _recall(self, key: str, text: str) -> None:
        """An attempt that the keeper holds and a restarted agent does not know yet."""
        if key in self._attempts.by_key:
            return
        note = read_note(text, key)
        if note is None:
            self._effects.append(KillProcess([key]))
            return
        attempt = Attempt(note)
        self._attempts.add(attempt)
        self._room.take(note.ask)
        if note.lease_ms:
            self._leased[key] = attempt

    def _started(self, event: KeeperStarted) -> None:
        for key, started in zip(event.key, event.started, strict=True):
            attempt = self._attempts.by_key.get(key)
            if attempt is None:
                continue
            attempt.started = started
            if attempt.stage == Stage.starting:
                attempt.stage = Stage.running
                note = attempt.note
                self._telling.stages.add(note.job, note.index, 1, note.number, Stage.running, started)

    def _failed(self, event: KeeperFailed) -> None:
        refused: list[Attempt] = []
        for key, reason in zip(event.key, event.reason, strict=True):
            attempt = self._attempts.by_key.get(key)
            if attempt is None or attempt.end is not None:
                continue
            if reason == Reason.no_such_dir:
                # Another machine may have it: this start was refused, not failed.
                note = attempt.note
                self._telling.refused.add(note.job, note.index, 1, note.number, reason)
                self._release(attempt)
                refused.append(attempt)
            else:
                end = End(Ending.failed, reason, FAILED_EXITS.get(reason, 0), 0, self._wall, 0)
                self._finish(attempt, end)
        self._forget(refused)

    def _ended(self, event: KeeperEnded) -> None:
        unknown: list[str] = []
        for row, key in enumerate(event.key):
            attempt = self._attempts.by_key.get(key)
            if attempt is None:
                unknown.append(key)
            elif attempt.end is None:
                self._close(
                    attempt,
                    event.why[row],
                    (event.exit[row], event.signal[row]),
                    (event.started[row], event.ended[row]),
                    (event.out_length[row], event.err_length[row]),
                )
        if unknown:
            self._effects.append(Forget(unknown))

    def _close(
        self,
        attempt: Attempt,
        why: Why,
        how: tuple[int, int],
        times: tuple[int, int],
        lengths: tuple[int, int],
    ) -> None:
        outcome, reason, exit_ = judge(attempt, why, *how)
        output = self._output.ended(attempt.key, lengths)
        self._finish(attempt, End(outcome, reason, exit_, *times, int(output > 0)))

    def _finish(self, attempt: Attempt, end: End) -> None:
        self._attempts.close(attempt, end)
        self._release(attempt)
        self._tell_end(attempt, end)

    def _release(self, attempt: Attempt) -> None:
        self._room.give(attempt.note.ask)
        self._leased.pop(attempt.key, None)

    def _keeper_lost(self, event: KeeperLost) -> None:
        self._keeper = False

    # Output.

    def _grew(self, event: Grew) -> None:
        for key, stream, length in zip(event.key, event.stream, event.length, strict=True):
            attempt = self._attempts.by_key.get(key)
            if attempt is not None and self._output.grew(key, stream, length) > attempt.note.output_bytes:
                self._end([attempt], How.kill, Reason.output_limit)
        if self._output.held >= self._settings.spool_bytes:
            self._end_largest()

    def _end_largest(self) -> None:
        """The spool is full: the largest talker ends, one at a time."""
        live = [attempt for attempt in self._attempts if attempt.end is None]
        flows = self._output.flows
        talkers = [attempt for attempt in live if attempt.key in flows]
        if any(attempt.how == How.kill for attempt in talkers) or not talkers:
            return
        largest = max(talkers, key=lambda attempt: sum(flows[attempt.key].length))
        self._end([largest], How.kill, Reason.spool_full)

    def _unreadable(self, event: OutputUnreadable) -> None:
        for key, stream in zip(event.key, event.stream, strict=True):
            self._output.unreadable(key, stream)

    def _stored(self, event: OutputStored) -> None:
        for key, stream, offset in zip(event.key, event.stream, event.offset, strict=True):
            self._output.stored(key, stream, offset, self._now)

    def _finish_output(self) -> None:
        for flow in self._output.take_done():
            attempt = self._attempts.by_key.get(flow.key)
            if attempt is not None and not attempt.output_known:
                self._tell_output(attempt, flow)

    # What is said.

    def _tell_end(self, attempt: Attempt, end: End) -> None:
        note = attempt.note
        facts = (note.term, end.outcome, end.reason, end.exit, end.started, end.ended, end.output)
        self._telling.ended.add(note.job, note.index, 1, note.number, *facts)

    def _tell_output(self, attempt: Attempt, flow: Flow) -> None:
        note = attempt.note
        self._telling.output.add(note.job, note.index, 1, note.number, int(flow.whole), *flow.length)

    def _measured(self, event: Measured) -> None:
        self._contact.load = Load(event.cpu, event.memory)

    def _speak(self) -> None:
        """Ends and answers at once; stages wait a moment, for most short attempts end in it."""
        telling = self._telling
        if not self._contact.open:
            # The report of the next session says all of it.
            self._telling = Telling()
            self._speak_at = None
        elif telling.urgent or (self._speak_at is not None and self._now >= self._speak_at):
            self._speak_at = None
            for body in telling.frames():
                self._contact.say(body, self._now)
        elif telling.stages and self._speak_at is None:
            self._speak_at = self._now + STAGES_MS

    # Leaving.

    def _stop_asked(self, event: StopAsked) -> None:
        self._goodbye.ask(event.keep, self._now)
        self._telling.others.append(self._goodbye.word())

    def _go(self) -> None:
        goodbye = self._goodbye
        if goodbye.is_due(self._now, self._contact.confirmed, self._attempts.live, len(self._attempts)):
            word = goodbye.word()
            self._effects += [LeaveKeeper(word.keep, word.back_within_ms), Exit()]
