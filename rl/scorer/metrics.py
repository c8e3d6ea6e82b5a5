"""The metrics of GET /metrics, in Prometheus' text format."""

import time
from collections.abc import Collection, Iterable, Iterator, Mapping

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rl.common.outcomes import INFRA_ERROR, OUTCOMES
from rl.scorer.outcomes import Score
from rl.scorer.sandbox.confine import MECHANISMS
from rl.scorer.scorers import Scorers

_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)


class Metrics:
    """Counts of one server, and the present state of its scorers.

    paths: those that requests are counted by; all others count as one, because a client could invent any number.
    """

    def __init__(self, scorers: Scorers):
        self.paths: Collection[str] = ()
        self._registry = CollectorRegistry()
        self._registry.register(_State(scorers))
        named = {"namespace": "scorer", "registry": self._registry}
        self._requests = Counter("requests", "Requests by path and HTTP status", ["path", "status"], **named)
        scores = Counter("answers", "Scores by outcome", ["outcome"], **named)
        self._seconds = Histogram("request_seconds", "Time of a request", ["path"], buckets=_BUCKETS, **named)
        self._by_outcome = {outcome: scores.labels(outcome) for outcome in (*OUTCOMES, INFRA_ERROR)}

    def text(self) -> bytes:
        return generate_latest(self._registry)

    def scored(self, scores: Iterable[Score]) -> None:
        for score in scores:
            self._by_outcome[score.outcome].inc()

    def request_ended(self, path: str, status: int, seconds: float) -> None:
        self._seconds.labels(path).observe(seconds)
        self._requests.labels(path, str(status)).inc()


class Measured:
    """ASGI middleware: times every request and counts it by its path and status."""

    def __init__(self, app: ASGIApp, metrics: Metrics):
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, status = time.perf_counter(), 500

        async def note_status(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, note_status)
        finally:
            path = scope["path"] if scope["path"] in self._metrics.paths else "other"
            self._metrics.request_ended(path, status, time.perf_counter() - started)


class _State:
    """A prometheus_client collector that reads the present state of the scorers."""

    def __init__(self, scorers: Scorers):
        self._scorers = scorers

    def collect(self) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
        scorers = self._scorers.by_kind
        pools = {kind: scorer.pool for kind, scorer in scorers.items()}
        yield _family(GaugeMetricFamily, "waiting", "Jobs that wait for a worker", "kind", pools)
        yield _family(GaugeMetricFamily, "running", "Jobs in workers", "kind", pools)
        yield _family(GaugeMetricFamily, "workers", "Worker processes", "kind", pools)
        ends = CounterMetricFamily("scorer_worker_ends", "Ends of worker processes by cause", labels=["kind", "cause"])
        confined = GaugeMetricFamily(
            "scorer_sandbox", "Whether a mechanism of the kernel confines the workers", labels=["kind", "mechanism"]
        )
        for kind, scorer in scorers.items():
            for cause, count in scorer.pool.ends.items():
                ends.add_metric([kind, cause], count)
            for mechanism in MECHANISMS:
                confined.add_metric([kind, mechanism], mechanism in scorer.sandbox)
        yield ends
        yield confined
        caches = {name: cache for scorer in scorers.values() for name, cache in scorer.caches.items()}
        yield _family(CounterMetricFamily, "hits", "Results that needed no run of their own", "cache", caches)
        yield _family(CounterMetricFamily, "misses", "Results that needed a run", "cache", caches)
        yield _family(GaugeMetricFamily, "bytes", "Bytes of the kept results", "cache", caches)


def _family(kind: type, name: str, text: str, label: str, sources: Mapping[str, object]):
    family = kind(f"scorer_{'cache_' if label == 'cache' else ''}{name}", text, labels=[label])
    for key, source in sources.items():
        family.add_metric([key], getattr(source, name))
    return family
