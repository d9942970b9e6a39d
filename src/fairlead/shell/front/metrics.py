"""What a front counts of itself, for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class Bytes(Protocol):
    """The figures of the intake."""

    waiting_bytes: int
    taken_bytes: int
    stored_bytes: int
    retries: int


class Holes(Protocol):
    """The figures of the logs."""

    damaged: int


class Followed(Protocol):
    """The figures of the feed."""

    head: int
    resyncs: int


class Metrics:
    """The registry of one front."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "fairlead_front_requests",
            "Requests answered, by route and status.",
            ["route", "status"],
            registry=self.registry,
        )
        self.seconds = Histogram(
            "fairlead_front_request_seconds",
            "Time until the first byte of an answer, by route.",
            ["route"],
            buckets=BUCKETS,
            registry=self.registry,
        )
        self.faults = Counter(
            "fairlead_front_faults", "Requests that ended in an unexpected fault.", registry=self.registry
        )

    def watch(self, intake: Bytes, logs: Holes, feed: Followed, followers: Callable[[], int]) -> None:
        """Read these figures whenever somebody asks."""
        self.registry.register(Figures(intake, logs, feed, followers))

    def text(self) -> bytes:
        """All of it in Prometheus' text form."""
        return generate_latest(self.registry)


class Figures(Collector):
    """Figures that others keep anyway."""

    def __init__(self, intake: Bytes, logs: Holes, feed: Followed, followers: Callable[[], int]) -> None:
        self._intake = intake
        self._logs = logs
        self._feed = feed
        self._followers = followers

    def collect(self) -> Iterator[Metric]:
        """One family a figure."""
        counters = (
            (
                "fairlead_front_output_taken_bytes",
                "Bytes of blocks taken from agents.",
                self._intake.taken_bytes,
            ),
            (
                "fairlead_front_output_stored_bytes",
                "Bytes of blocks stored durably.",
                self._intake.stored_bytes,
            ),
            ("fairlead_front_output_retries", "Puts that were repeated.", self._intake.retries),
            ("fairlead_front_output_damaged", "Blocks found damaged or gone.", self._logs.damaged),
            ("fairlead_front_resyncs", "Times the segments had a gap.", self._feed.resyncs),
        )
        gauges = (
            (
                "fairlead_front_output_waiting_bytes",
                "Bytes that wait for the store.",
                self._intake.waiting_bytes,
            ),
            (
                "fairlead_front_followers",
                "Open streams of output, attachments and events.",
                self._followers(),
            ),
            ("fairlead_front_segment", "The last segment heard of.", self._feed.head),
        )
        for name, about, value in counters:
            yield CounterMetricFamily(name, about, value=value)
        for name, about, value in gauges:
            yield GaugeMetricFamily(name, about, value=value)
