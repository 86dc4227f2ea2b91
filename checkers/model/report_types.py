"""The model's answer about a run: ``analysis/model.json``."""

from typing import Final, Literal, Self

import msgspec

from highwater.harness.base.errors import StoreError

FORMAT: Final = 1

Kind = Literal["scripted", "random"]
Status = Literal["as-predicted", "explained", "unexplained", "not-reproduced", "unknown"]
Word = Literal["explained", "unexplained", "unknown"]


class ExplanationLink(msgspec.Struct, frozen=True, kw_only=True):
    """One link of an explanation, tied to what was observed.

    Attributes:
        rule: a switch of ``Rules`` (``epochs``: KIP-101), or a plain name such as ``acks=1``.
        event: the observation, in the words of its source; None if it was not observed.
        broker: None for clients and the controller.
        time_ns: since the run's start; None for evidence of the disks at the end.
    """

    rule: str
    says: str
    event: str | None = None
    broker: int | None = None
    time_ns: int | None = None


class ModelFinding(msgspec.Struct, frozen=True, kw_only=True):
    """One anomaly, or one event that no rule of the release allows, with its explanation.

    Attributes:
        kind: of the anomaly (lost-write, unseen, divergence, duplicate, corrupt); else ``trace``,
            an event that the rules do not allow, or ``books``, a contradiction among the records of
            the run.
        record: its id; None when it cannot be read, or there is none.
        verdict: ``unknown``: what could explain it was not observed.
        because: the chain, in order of time. The last link is the reason, except of an
            ``explained`` one.
        count: the number of equal anomalies for which this finding stands.
    """

    kind: str
    topic: str
    partition: int | None
    offset: int | None
    record: str | None
    verdict: Word
    because: tuple[ExplanationLink, ...]
    count: int = 1


class PartitionOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a partition.

    Attributes:
        lost: ids of acknowledged records that no replica returns, sorted.
        forked: offsets at which replicas hold different records, sorted.
        logs: the record ids of each replica, by broker id as text, in order of offset; empty where
            they were not compared (a random run has too many records).
    """

    lost: tuple[str, ...] = ()
    forked: tuple[int, ...] = ()
    logs: dict[str, tuple[str, ...]] = {}


class ModelSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the model after a line of its script.

    Attributes:
        line: of the script, in which replicas are called A, B and C.
        leader: by its id as text, as everywhere here; empty without a leader.
        down: brokers that are dead or stopped.
    """

    line: str
    leader: str
    epoch: int
    isr: tuple[str, ...]
    logs: dict[str, tuple[str, ...]]
    hw: dict[str, int]
    down: tuple[str, ...] = ()


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """One place at which the predicted and the observed log of a replica differ.

    Attributes:
        predicted: the record's id; None: the log should end before.
        observed: the record's id; None without one.
    """

    broker: int
    offset: int
    predicted: str | None
    observed: str | None


class Reconciliation(msgspec.Struct, frozen=True, kw_only=True):
    """The model's whole answer about one run.

    Attributes:
        kafka: the release whose rules were applied.
        to: the newest release to which its brokers were upgraded meanwhile, each with its own
            rules from then on; empty if they were not.
        protocol: the newest ``inter.broker.protocol.version`` or ``metadata.version`` that it was
            to speak, by which older rules hold; empty: its own.
        written: the newest ``log.message.format.version`` that it was to write, in the same form.
        kind: ``scripted``: the model played the same schedule; ``random``: the run was checked as a
            trace.
        status: ``as-predicted``: exactly what was predicted; ``explained``: every anomaly follows
            from the rules; ``unexplained``: something does not; ``not-reproduced``: what was
            predicted did not happen; ``unknown``: not known, ``reasons`` say why.
        predicted: None for a random run.
        findings: one for each anomaly of the verdict, and one for each event outside the rules.
        absent: predictions that did not happen, a sentence each.
        differences: record by record, where predicted and observed logs differ.
        course: the model's states, line by line of its script; empty where it played none.
        checked: how many events of each kind were found to be within the rules: elections, cuts,
            ISR changes, acknowledgements, logs.
    """

    format: int = FORMAT
    run: str
    kafka: str
    to: str = ""
    protocol: str = ""
    written: str = ""
    kind: Kind
    status: Status
    reasons: tuple[str, ...] = ()
    predicted: PartitionOutcome | None = None
    observed: PartitionOutcome
    findings: tuple[ModelFinding, ...] = ()
    absent: tuple[str, ...] = ()
    differences: tuple[Difference, ...] = ()
    course: tuple[ModelSnapshot, ...] = ()
    checked: dict[str, int] = {}

    @property
    def software(self) -> str:
        """The software whose rules hold: ``Kafka 0.11.0.3 speaking protocol 0.10.2``."""
        names = f"{self.kafka} to {self.to}" if self.to else self.kafka
        verbs = (("speaking protocol", self.protocol), ("writing format", self.written))
        limits = " and ".join(f"{what} {most}" for what, most in verbs if most)
        return f"Kafka {names} {limits}".rstrip()

    @property
    def explained(self) -> int:
        """The number of anomalies and events that follow from the rules."""
        return sum(finding.count for finding in self.findings if finding.verdict == "explained")

    @property
    def unexplained(self) -> int:
        """The number of anomalies and events that do not."""
        return sum(finding.count for finding in self.findings if finding.verdict == "unexplained")

    @property
    def not_known(self) -> int:
        """The number of those of which too little was observed."""
        return sum(finding.count for finding in self.findings if finding.verdict == "unknown")

    def to_json(self) -> bytes:
        """Return the answer as ``analysis/model.json`` holds it."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2)

    @classmethod
    def from_json(cls, text: bytes) -> Self:
        """Read it back.

        Raises:
            StoreError: the text is not one, or of another format.
        """
        hint = "Judge the run again: highwater check RUN"
        try:
            decoded = msgspec.json.decode(text, type=cls)
        except msgspec.MsgspecError as error:
            raise StoreError(f"model.json is broken: {error}", hint=hint) from error
        if decoded.format != FORMAT:
            what = f"model.json is of format {decoded.format}, not {FORMAT}"
            raise StoreError(what, hint=hint)
        return decoded
