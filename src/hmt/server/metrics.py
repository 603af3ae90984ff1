"""Metrics for Prometheus: counts and times only; no addresses, no names, no text."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from hmt.server.conductor import Observer

ROUND_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
DELAY_SECONDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
STREAMS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics:
    """The metrics of one server."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        own = self.registry
        self.sessions = Gauge("hmt_sessions", "Live sessions.", ["model"], registry=own)
        self.lost = Gauge(
            "hmt_lost_sessions", "Sessions whose clients may come back.", registry=own
        )
        self.listeners = Gauge("hmt_listeners", "Listeners of rooms.", registry=own)
        self.slots = Gauge("hmt_slots", "Slots of the engines.", ["state"], registry=own)
        self.cache_bytes = Gauge("hmt_cache_bytes", "Memory of the slots.", registry=own)
        self.queued = Gauge("hmt_queued_words", "Words that wait for a round.", registry=own)
        self.rounds = Histogram(
            "hmt_round_seconds", "Time of a round.", buckets=ROUND_SECONDS, registry=own
        )
        self.streams = Histogram(
            "hmt_round_streams", "Streams that shared a round.", buckets=STREAMS, registry=own
        )
        self.delays = Histogram(
            "hmt_word_delay_seconds",
            "From the arrival of a word to the end of its first round.",
            buckets=DELAY_SECONDS,
            registry=own,
        )
        self.words = Counter("hmt_words", "Words taken and written.", ["side"], registry=own)
        self.cuts = Counter("hmt_cuts", "Sentences by how they ended.", ["reason"], registry=own)
        self.rejected = Counter("hmt_rejected", "Refusals by reason.", ["reason"], registry=own)
        self.merged = Counter("hmt_merged", "Deltas merged for slow readers.", registry=own)
        self.resumes = Counter("hmt_resumes", "Sessions resumed.", ["how"], registry=own)
        self.unwritten = Gauge(
            "hmt_caption_failures", "Writes of captions to disk that failed.", registry=own
        )
        self.faults = Counter("hmt_faults", "Rounds that failed.", registry=own)

    def text(self) -> bytes:
        """All metrics in Prometheus' format."""
        return generate_latest(self.registry)


class RoundMetrics(Observer):
    """Receives a conductor's measurements of its rounds."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def round(self, seconds: float, streams: int) -> None:
        self._metrics.rounds.observe(seconds)
        self._metrics.streams.observe(streams)

    def delay(self, seconds: float) -> None:
        self._metrics.delays.observe(seconds)

    def fault(self) -> None:
        self._metrics.faults.inc()
