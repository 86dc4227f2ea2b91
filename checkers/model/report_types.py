"""The model's result for a run: ``analysis/model.json``."""

from typing import Final, Literal, Self

import msgspec

from highwater.harness.base.errors import StoreError

FORMAT: Final = 1

Kind = Literal["scripted", "random"]
Status = Literal["as-predicted", "explained", "unexplained", "not-reproduced", "unknown"]
Word = Literal["explained", "unexplained", "unknown"]


class ExplanationLink(msgspec.Struct, frozen=True, kw_only=True):
    """One step of an explanation, with the observation that proves it.

    Attributes:
        rule: a switch of ``Rules``, such as ``epochs`` (KIP-101), or a name, such as ``acks=1``.
        event: the text of the observation; None if nothing was observed.
        broker: the broker of the event; None for clients and the controller.
        time_ns: the time since the run's start; None for evidence from the disks at the end.
    """

    rule: str
    says: str
    event: str | None = None
    broker: int | None = None
    time_ns: int | None = None


class ModelFinding(msgspec.Struct, frozen=True, kw_only=True):
    """An anomaly, or an event that no rule of the release allows, with its explanation.

    Attributes:
        kind: the anomaly's kind, such as ``lost-write``; ``trace`` for an event that no rule
            allows; ``books`` for a contradiction in the run's evidence.
        record: the record's id; None when it cannot be read, or there is no record.
        verdict: ``unknown`` when the events that could explain the anomaly were not observed.
        because: the steps of the explanation, in order of time. Unless the verdict is
            ``explained``, the last step gives the reason for the verdict.
        count: the number of anomalies in this finding, which differ only in their record.
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
    """The outcome for a partition: lost records, forked offsets, and the replicas' logs.

    Attributes:
        lost: ids of acknowledged records that were lost, sorted.
        forked: offsets at which replicas hold different records, sorted.
        logs: the record ids of each replica, by broker id as text, in order of offset; empty for a
            random run, which has too many records.
    """

    lost: tuple[str, ...] = ()
    forked: tuple[int, ...] = ()
    logs: dict[str, tuple[str, ...]] = {}


class ModelSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the model after a line of its script.

    Attributes:
        line: the line of the script, in which replicas are called A, B and C.
        leader: the leader's id as text, like all ids here; empty without a leader.
        down: the brokers that are dead or stopped.
    """

    line: str
    leader: str
    epoch: int
    isr: tuple[str, ...]
    logs: dict[str, tuple[str, ...]]
    hw: dict[str, int]
    down: tuple[str, ...] = ()


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """One offset at which the predicted and the observed log of a replica differ.

    Attributes:
        predicted: the id of the predicted record; None if the log should end before this offset.
        observed: the id of the observed record; None if there is no record.
    """

    broker: int
    offset: int
    predicted: str | None
    observed: str | None


class Reconciliation(msgspec.Struct, frozen=True, kw_only=True):
    """The model's complete result for one run.

    Attributes:
        kafka: the release whose rules were applied.
        to: the newest release to which brokers were upgraded during the run, or empty. The new
            rules apply to a broker from its upgrade on.
        protocol: the newest ``inter.broker.protocol.version`` or ``metadata.version`` that the
            brokers may use; empty means the release's own version.
        written: the newest ``log.message.format.version`` that the brokers may write, or empty.
        kind: ``scripted``: the model executed the same schedule; ``random``: the run was checked as
            a trace.
        status: ``as-predicted``: the run matched the prediction exactly; ``explained``: the rules
            explain every anomaly; ``unexplained``: no rule explains an anomaly; ``not-reproduced``:
            a prediction did not happen; ``unknown``: ``reasons`` say why.
        predicted: the predicted outcome; None for a random run.
        findings: one for each anomaly of the verdict, and one for each event that no rule allows.
        absent: a sentence for each prediction that did not happen.
        differences: the records in which predicted and observed logs differ.
        course: the model's state after each line of its script; empty without a script.
        checked: the number of checked events of each kind: elections, decisions about leaders and
            ISRs, truncations (``cuts``), operations of clients, and records on disks.
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
        """The software whose rules apply: ``Kafka 0.11.0.3 speaking protocol 0.10.2``."""
        names = f"{self.kafka} to {self.to}" if self.to else self.kafka
        verbs = (("speaking protocol", self.protocol), ("writing format", self.written))
        limits = " and ".join(f"{what} {most}" for what, most in verbs if most)
        return f"Kafka {names} {limits}".rstrip()

    def number_of(self, verdict: Word) -> int:
        """Return the number of anomalies and events that have this verdict."""
        return sum(finding.count for finding in self.findings if finding.verdict == verdict)

    def to_json(self) -> bytes:
        """Return the result as the text of ``analysis/model.json``."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2)

    @classmethod
    def from_json(cls, text: bytes) -> Self:
        """Return the result that the text of ``analysis/model.json`` holds.

        Raises:
            StoreError: the text is not a result, or has another format.
        """
        hint = "Judge the run again: highwater check RUN"
        try:
            decoded = msgspec.json.decode(text, type=cls)
        except msgspec.MsgspecError as error:
            raise StoreError(f"model.json cannot be decoded: {error}", hint=hint) from error
        if decoded.format != FORMAT:
            what = f"model.json has format {decoded.format}, but this release reads format {FORMAT}"
            raise StoreError(what, hint=hint)
        return decoded
