"""The software of each broker over time: in an upgrade the rules of a broker change during the run.

Jars, protocol and message format change broker by broker, by a restart. On KRaft the features
change for all brokers at once, without a restart. ``events/faults`` has a note of each change
(``nemesis.faults.upgrades``); ``clusters.releases.software_level.Level`` has the note's text.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from highwater.checkers.model.protocol.rules_by_release import SWITCHES, Rules, rules_of
from highwater.checkers.model.transactions.transaction_rules import (
    CLIENTS,
    FIRST,
    TransactionRules,
    transaction_client,
    transaction_rules_of,
)
from highwater.harness.releases.catalogue import release
from highwater.harness.releases.client_choice import (
    AIOKAFKA,
    DRIVER,
    KAFKA_PYTHON,
    LIBRDKAFKA,
    read_client,
)
from highwater.harness.releases.cluster_facts import VERIFICATION
from highwater.harness.runs.faults.times import Strikes
from highwater.harness.runs.plan import Plan

_FAULTS: Final = frozenset(("upgrade", "downgrade"))

_CHANGED: Final = re.compile(
    r"(?:broker \d+ runs|the cluster has) Kafka (?P<kafka>[\w.-]+),"
    r" (?:metadata\.version (?P<metadata>[\d.]+)"
    r"|protocol (?P<protocol>[\d.]+), format (?P<format>[\d.]+))"
)

_BOOT: Final = frozenset(("loaded", "created", "start"))
"""The kinds of log lines that show that a broker has started."""

_LIKE_JAVA: Final = frozenset((AIOKAFKA, KAFKA_PYTHON))
"""Libraries whose producers send EndTxn below version 5, and wait for each response before an
abort: ``Sender._do_txn_commit`` by ``flush_for_commit``;
``RecordAccumulator.abort_undrained_batches``."""

_Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Software:
    """A broker's release, and the rules that follow from its release, protocol, format and client.

    Attributes:
        transactions: the rules of transactions; several if the model does not know the client's
            library; empty if the release has no transactions.
    """

    kafka: str
    rules: Rules
    transactions: tuple[TransactionRules, ...] = ()

    @property
    def number(self) -> tuple[int, ...]:
        """The release as numbers."""
        return release(self.kafka).number

    @classmethod
    def of(
        cls, kafka: str, *, protocol: str = "", written: str = "", client: str = LIBRDKAFKA
    ) -> "Software":
        """Return a release's software, under limits on protocol and format.

        Raises the errors of ``rules_of``.
        """
        return cls(
            kafka=kafka,
            rules=rules_of(kafka, protocol=protocol, written=written),
            transactions=_transactions(kafka, protocol, client),
        )

    def may_be(self, rule: str, *, value: bool) -> bool:
        """Return whether a switch may have this value; False if no rules have the switch."""
        possible = (self.rules,) if rule in SWITCHES else self.transactions
        return any(bool(getattr(rules, rule)) is value for rules in possible)


@dataclass(frozen=True, slots=True, kw_only=True)
class SoftwareChange:
    """A change of one broker's software, or of all brokers' software.

    Attributes:
        broker: the broker; None if all brokers changed.
        begun_ns: the earliest time at which the new rules may have been in force.
        done_ns: the time from which on the old rules were not in force.
    """

    software: Software
    broker: int | None
    begun_ns: int
    done_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SoftwareHistory:
    """The software of all brokers of a run.

    Attributes:
        first: the software that every broker ran when the run began.
        changes: the changes of software, in order of time.
    """

    first: Software
    brokers: tuple[int, ...] = ()
    changes: tuple[SoftwareChange, ...] = ()

    @property
    def kraft(self) -> bool:
        """True if a KRaft quorum stores the metadata. No upgrade changes this during a run."""
        return self.first.rules.kraft

    @property
    def newest(self) -> str:
        """The newest release that a broker ran."""
        names = (software.kafka for software in self.at(None))
        return max(names, key=lambda name: release(name).number)

    def at(self, time_ns: int | None, broker: int | None = None) -> tuple[Software, ...]:
        """Return the software that a broker may have had at a time; several during a change.

        Args:
            time_ns: the time since the run's start; None for all times.
            broker: the broker; None for any broker.
        """
        if time_ns is None:
            return (self.first, *(change.software for change in self.changes))
        brokers = self.brokers if broker is None else (broker,)
        possible = (software for broker_id in brokers for software in self._of(broker_id, time_ns))
        return tuple(dict.fromkeys(possible)) or (self.first,)

    def may_have(self, rule: str, time_ns: int | None, broker: int | None = None) -> bool:
        """Return whether a switch of the model may have been on; see ``at`` for the arguments."""
        return any(software.may_be(rule, value=True) for software in self.at(time_ns, broker))

    def may_lack(self, rule: str, time_ns: int | None, broker: int | None = None) -> bool:
        """Return whether a switch of the model may have been off; see ``at`` for the arguments."""
        return any(software.may_be(rule, value=False) for software in self.at(time_ns, broker))

    def _of(self, broker: int, time_ns: int) -> list[Software]:
        possible = [self.first]
        for change in self.changes:
            if change.broker in (None, broker) and time_ns >= change.begun_ns:
                before = possible if time_ns < change.done_ns else []
                possible = [*before, change.software]
        return possible


def software_history(
    plan: Plan, faults: Sequence[_Row], strikes: Strikes, log_lines: Sequence[_Row]
) -> SoftwareHistory:
    """Return the software of a run's brokers. In a scripted scenario it never changes.

    Args:
        plan: the run's plan.
        faults: rows of ``events/faults``, in order of time.
        strikes: the times when faults began.
        log_lines: rows of ``events/log_lines`` with the starts of brokers, in order of time.

    Raises:
        UsageError: the model does not know the run's release.
    """
    first = _ran(plan, plan.played_on, plan.protocol, plan.format)
    changes = () if plan.story else tuple(_changes(plan, faults, strikes, log_lines))
    return SoftwareHistory(first=first, brokers=plan.broker_ids, changes=changes)


def _ran(plan: Plan, kafka: str, protocol: str, written: str) -> Software:
    """Return a release's software, with the run's client and its setting of verification."""
    software = Software.of(kafka, protocol=protocol, written=written, client=plan.client)
    if plan.broker_config.get(VERIFICATION) != "false":
        return software
    unverified = (
        replace(rules, verification=False, lowest_sequence=False) for rules in software.transactions
    )
    return replace(software, transactions=tuple(unverified))


def _transactions(kafka: str, protocol: str, client: str) -> tuple[TransactionRules, ...]:
    if release(kafka).number < FIRST:
        return ()
    choice = read_client(client, kafka)
    if choice.library == DRIVER:
        likes = CLIENTS
    elif choice.library in _LIKE_JAVA:
        likes = ("java-v1",)
    else:
        likes = (transaction_client(choice),)
    return tuple(transaction_rules_of(kafka, like, protocol=protocol) for like in likes)


def _changes(
    plan: Plan, faults: Iterable[_Row], strikes: Strikes, log_lines: Sequence[_Row]
) -> Iterator[SoftwareChange]:
    noted_ns = 0
    for row in faults:
        if row["fault"] not in _FAULTS or row["phase"] != "note":
            continue
        done_ns, broker = row["time_ns"], row["broker"]
        began = [
            strike.begun_ns
            for strike in strikes.get((row["fault"], None), ())
            if strike.begun_ns <= done_ns
        ]
        since_ns, noted_ns = max([noted_ns, *began]), done_ns
        match = _CHANGED.fullmatch(row["says"])
        if match is None:
            continue  # the change of a controller, on which no explanation depends, or a session
        protocol, written = match["metadata"] or match["protocol"], match["format"] or ""
        begun_ns = since_ns
        if broker is not None:
            begun_ns = done_ns = _booted(log_lines, broker, since_ns, done_ns)
        yield SoftwareChange(
            software=_ran(plan, match["kafka"], protocol, written),
            broker=broker,
            begun_ns=begun_ns,
            done_ns=done_ns,
        )


def _booted(log_lines: Iterable[_Row], broker: int, since_ns: int, until_ns: int) -> int:
    """Return the time of a broker's first log line after its last stop in an interval.

    Without such a line, return the end of the interval.
    """
    booted_ns = until_ns
    for row in log_lines:
        if row["broker"] != broker or not since_ns <= row["time_ns"] <= until_ns:
            continue
        if row["kind"] == "stop":
            booted_ns = until_ns
        elif row["kind"] in _BOOT:
            booted_ns = min(booted_ns, row["time_ns"])
    return booted_ns
