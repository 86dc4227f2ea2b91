"""The conditions of hazards.toml, which are evaluated against the facts about a cluster.

The result is yes, no or unknown. A "no" has one of two meanings. The cluster is *guarded*: a
setting, a feature or its clients protect it. Or it is *not affected*: it has no affected release,
topic or client, or uses ZooKeeper instead of KRaft (or the reverse).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final, Literal, NamedTuple

import msgspec

from highwater.harness.base.wording import count
from highwater.harness.releases.catalogue import CATALOGUE
from highwater.harness.releases.client_choice import JAVA, LIBRDKAFKA, ClientChoice
from highwater.harness.releases.cluster_facts import (
    POSITIONS,
    REMOTE_TIER,
    SHARE_FEATURE,
    SHARE_GROUPS,
    TRANSACTION_FEATURE,
    TRANSACTIONS,
    UNCLEAN,
    ClusterFacts,
    Number,
    ReleaseRange,
    TopicFacts,
    dotted,
    numbers,
    successor,
)
from highwater.harness.releases.release import Coordination, Release

Holds = Literal["yes", "no", "unknown"]
Comparison = Literal["=", "<", ">=", "has", "lists"]

NEWEST: Final = max(release.number for release in CATALOGUE.values())
END: Final = successor(NEWEST[:2])
"""The minor release after the newest release of the catalogue. The catalogue knows nothing about
this release and later releases."""

RENEWED_FROM: Final = (4, 0)
"""The first release whose new clusters have transaction.version 2, and whose Java clients obey this
version."""

_RENEWED: Final = 2
"""The level of ``TRANSACTION_FEATURE`` at which each transaction gets a new epoch (KIP-890)."""

FEATURES: Final = "the cluster's features"

CLIENT_OPTIONS: Final[Mapping[str, str]] = {
    "acks": "--acks 0, 1 or all",
    "power": "--power shared, separate or safe",
    "transactions": "--transactions none, librdkafka, java or another library",
    "client": "--client librdkafka, java:RELEASE or another library",
    "offset-reset": "--offset-reset earliest, latest, by_duration or none",
    "group-protocol": "--group-protocol classic or consumer",
    "record-age": "--record-age DURATION",
    "away": "--away DURATION",
    "broker-away": "--broker-away DURATION",
    "disks": "--disks local or network",
    "recreated": "--recreated yes or no",
    "controller-unclean": "--controller-unclean yes or no",
}
"""The facts that a user states by options, because no broker returns them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """The facts on which a condition depends.

    ``answers`` are the facts that the user stated by options, by the names in ``CLIENT_OPTIONS``.
    """

    cluster: ClusterFacts
    topic: TopicFacts
    answers: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionAnswer:
    """The result of one condition.

    Attributes:
        why: for "no", the protection; for "unknown", the missing fact.
        fixed: for "no": true if the cluster is not affected, false if it is guarded.
    """

    holds: Holds
    why: str = ""
    fixed: bool = False


YES: Final = ConditionAnswer(holds="yes")

_BROUGHT_BY: Final[Mapping[str, str]] = {
    POSITIONS: "consumer group",
    TRANSACTIONS: "transactional client",
    SHARE_GROUPS: "share group",
    REMOTE_TIER: "tiered topic",
}


def absent(topic: str) -> ConditionAnswer:
    """Return the "no" for a cluster without this internal topic of Kafka."""
    why = f"the cluster has no topic {topic}, so it has no {_BROUGHT_BY[topic]}"
    return ConditionAnswer(holds="no", why=why, fixed=True)


class _Condition(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="is", tag=True):
    """The base of all conditions. In hazards.toml, ``is`` names the condition's class."""


class Range(NamedTuple):
    """A range of affected releases: the first affected, and the first fixed (None: no fix)."""

    first: Number
    fixed: Number | None = None


class On(_Condition, frozen=True):
    """The condition that the cluster runs on ZooKeeper, or that it runs on KRaft."""

    coordination: Coordination

    @property
    def says(self) -> str:
        """The condition in a few words."""
        return f"on {coordination_name(self.coordination)}"

    def answer(self, situation: Situation) -> ConditionAnswer:
        """Return yes or no for this cluster."""
        actual = situation.cluster.coordination
        if actual == self.coordination:
            return YES
        return ConditionAnswer(
            holds="no", why=f"the cluster is on {coordination_name(actual)}", fixed=True
        )


class Releases(_Condition, frozen=True):
    """The condition that a broker's release is in a range.

    Attributes:
        guard: the protection in other releases; empty if other releases are not affected.
        without: a broker setting. A broker with the value false has the hazard in any release.
        below: a feature and a level. A cluster with a lower level has the hazard in any release.
    """

    ranges: tuple[Range, ...]
    guard: str = ""
    without: str = ""
    below: tuple[str, int] | None = None

    @property
    def says(self) -> str:
        """The condition in a few words."""
        later = f"; later with `{self.without}` = false" if self.without else ""
        if self.below:
            later += "; later with `{}` < {}".format(*self.below)
        return "; ".join(_range_says(first, fixed) for first, fixed in self.ranges) + later

    def answer(self, situation: Situation) -> ConditionAnswer:
        """Return yes if the release of any broker is in the ranges."""
        brokers = situation.cluster.brokers
        if any((broker.settings or {}).get(self.without) == "false" for broker in brokers):
            return YES
        answers = [self._of(broker.release) for broker in brokers]
        level = situation.cluster.level(self.below[0]) if self.below else None
        if "yes" in answers or (self.below and level is not None and level < self.below[1]):
            return YES
        if "unknown" in answers:
            unclear = brokers[answers.index("unknown")]
            return ConditionAnswer(
                holds="unknown",
                why=f"the exact release of broker {unclear.id}"
                f" ({unclear.release or 'not recognised'}): --kafka RELEASE",
            )
        if self.below and level is None:
            return ConditionAnswer(holds="unknown", why=FEATURES)
        seen = ", ".join(dict.fromkeys(str(broker.release) for broker in brokers))
        why = self.guard or f"the cluster's brokers are {seen}"
        return ConditionAnswer(holds="no", why=why, fixed=not self.guard)

    def _of(self, release: ReleaseRange | None) -> Holds:
        if release is None:
            return "unknown"
        answers = {_within(release, first, fixed) for first, fixed in self.ranges}
        return "yes" if "yes" in answers else "unknown" if "unknown" in answers else "no"


class AnyOf(_Condition, frozen=True):
    """The condition that at least one alternative holds. An alternative is a list of conditions."""

    alternatives: tuple[tuple["Condition", ...], ...]

    @property
    def says(self) -> str:
        """The condition in a few words."""
        every = (", ".join(part.says for part in parts) for parts in self.alternatives)
        return f"({'; or '.join(every)})"

    def answer(self, situation: Situation) -> ConditionAnswer:
        """Return the result of the alternative whose result is nearest to "yes"."""
        every = [
            all_of([part.answer(situation) for part in alternative])
            for alternative in self.alternatives
        ]
        for holds in ("yes", "unknown"):
            nearest = [answer for answer in every if answer.holds == holds]
            if nearest:
                return replace(nearest[0], why=_together(nearest))
        guarded = [answer for answer in every if not answer.fixed]
        return ConditionAnswer(holds="no", why=_together(guarded or every), fixed=not guarded)


def decisive(answers: Sequence[ConditionAnswer]) -> list[ConditionAnswer]:
    """Return the results that decide whether all conditions hold; empty if every result is "yes".

    A "no" that means "not affected" decides before a "no" that means "guarded". An "unknown"
    decides only if no result is "no".
    """
    refusals = [answer for answer in answers if answer.holds == "no"]
    fixed = [answer for answer in refusals if answer.fixed]
    return fixed[:1] or refusals or [answer for answer in answers if answer.holds == "unknown"]


def all_of(answers: Sequence[ConditionAnswer]) -> ConditionAnswer:
    """Combine the results of conditions that all must hold."""
    deciding = decisive(answers)
    return replace(deciding[0], why=_together(deciding)) if deciding else YES


def _together(answers: Sequence[ConditionAnswer]) -> str:
    return "; ".join(dict.fromkeys(answer.why for answer in answers if answer.why))


class Setting(_Condition, frozen=True):
    """The condition on the value of a setting, of the topic or of any broker.

    Attributes:
        value: a value, or the name of another setting whose value is used.
        absent: the result if no broker returns the setting.
        guards: true if another value means "guarded"; false for "not affected".
    """

    name: str
    comparison: Comparison
    value: str
    scope: Literal["topic", "broker"] = "topic"
    absent: Holds = "unknown"
    guards: bool = True

    @property
    def says(self) -> str:
        """The condition in a few words."""
        more = " or more" if self.comparison == "lists" else ""
        return f"`{self.name}` {self.comparison} {self.value}{more}"

    def answer(self, situation: Situation) -> ConditionAnswer:
        """Return yes, no or unknown for this topic or these brokers."""
        if self.scope == "topic":
            sources = [(f"topic {situation.topic.name}", situation.topic.settings)]
        else:
            sources = [
                (f"broker {broker.id}", broker.settings) for broker in situation.cluster.brokers
            ]
        unknown = [where for where, settings in sources if settings is None]
        values = [
            (settings[self.name], settings.get(self.value, self.value))
            for _, settings in sources
            if settings is not None and self.name in settings
        ]
        if any(_compare(value, self.comparison, than) for value, than in values):
            return YES
        if unknown:
            return ConditionAnswer(holds="unknown", why=f"{self.name} of {unknown[0]}")
        if not values and self.absent == "unknown":
            return ConditionAnswer(
                holds="unknown", why=f"{self.name}, which the brokers do not return"
            )
        if not values:
            return ConditionAnswer(
                holds=self.absent,
                why=f"{self.name} is not set, or no longer exists",
                fixed=True,
            )
        return ConditionAnswer(holds="no", why=f"{self.name}={values[0][0]}", fixed=not self.guards)


class Feature(_Condition, frozen=True):
    """The condition that a finalized feature's level is below a number, or at least that number.

    If the level is too high for the hazard, the cluster is guarded. If the level is too low, the
    cluster is not affected.
    """

    name: str
    comparison: Literal["<", ">="]
    level: int

    @property
    def says(self) -> str:
        """The condition in a few words."""
        return f"`{self.name}` {self.comparison} {self.level}"

    def answer(self, situation: Situation) -> ConditionAnswer:
        """Return yes, no or unknown for this cluster."""
        level = situation.cluster.level(self.name)
        if level is None:
            return ConditionAnswer(holds="unknown", why=FEATURES)
        if (level < self.level) == (self.comparison == "<"):
            return YES
        return ConditionAnswer(
            holds="no", why=f"{self.name}={level}", fixed=self.comparison == ">="
        )


class Controllers(_Condition, frozen=True):
    """The condition on the number of voters in the KRaft quorum."""

    count: int
    comparison: Literal[">=", "="] = "="

    @property
    def says(self) -> str:
        """The condition in a few words."""
        return f"controllers {self.comparison} {self.count}"

    def answer(self, situation: Situation) -> ConditionAnswer:
        """Return yes, no or unknown for this cluster."""
        actual = situation.cluster.controllers
        if actual is None:
            return ConditionAnswer(holds="unknown", why="the voters of the quorum")
        if actual == self.count or (self.comparison == ">=" and actual > self.count):
            return YES
        return ConditionAnswer(holds="no", why=f"the cluster's quorum has {actual} voters")


class Replicas(_Condition, frozen=True):
    """The condition on the number of replicas of the topic's partitions.

    A topic with too many replicas for the hazard is guarded; a topic with too few is not affected.
    """

    comparison: Literal["<", ">=", "="]
    count: int

    @property
    def says(self) -> str:
        """The condition in a few words."""
        return f"replicas {self.comparison} {self.count}"

    def answer(self, situation: Situation) -> ConditionAnswer:
        """Return yes or no for this topic."""
        actual = situation.topic.replicas
        if _compare(str(actual), self.comparison, str(self.count)):
            return YES
        return ConditionAnswer(
            holds="no",
            why=f"the topic's partitions have {count(actual, 'replica')}",
            fixed=self.comparison == ">=",
        )


class Partitions(_Condition, frozen=True):
    """The condition on the number of a topic's partitions."""

    least: int

    @property
    def says(self) -> str:
        """The condition in a few words."""
        return f"partitions >= {self.least}"

    def answer(self, situation: Situation) -> ConditionAnswer:
        """Return yes if the topic has at least ``least`` partitions, else no."""
        actual = situation.topic.partitions
        if actual >= self.least:
            return YES
        return ConditionAnswer(
            holds="no", why=f"the topic has {count(actual, 'partition')}", fixed=True
        )


class ClientOption(_Condition, frozen=True):
    """The condition on a fact about clients or machines, which only the user can state."""

    name: str
    values: tuple[str, ...]
    unknown: Holds = "unknown"

    @property
    def says(self) -> str:
        """The condition in a few words."""
        return f"{self.name} = {' or '.join(self.values)}"

    def answer(self, situation: Situation) -> ConditionAnswer:
        """Return yes, no or unknown for the user's answers."""
        value = situation.answers.get(self.name)
        if value is None:
            return ConditionAnswer(holds=self.unknown, why=CLIENT_OPTIONS[self.name])
        if value in self.values:
            return YES
        return ConditionAnswer(holds="no", why=f"{self.name}={value}, as you say")


class Outlasts(_Condition, frozen=True):
    """The condition that a duration, which only the user can state, is longer than a setting.

    Attributes:
        option: the name of the duration in ``CLIENT_OPTIONS``.
        unit_s: the setting's unit in seconds. A setting below zero means no limit.
    """

    option: str
    setting: str
    unit_s: float
    scope: Literal["topic", "broker"] = "topic"

    @property
    def says(self) -> str:
        """The condition in a few words."""
        return f"{self.option} > `{self.setting}`"

    def answer(self, situation: Situation) -> ConditionAnswer:
        """Return yes, no or unknown for the user's answers and the setting."""
        limited = Setting(self.setting, ">=", "0", scope=self.scope).answer(situation)
        if limited.holds != "yes":
            return limited
        stated = situation.answers.get(self.option)
        if stated is None:
            return ConditionAnswer(holds="unknown", why=CLIENT_OPTIONS[self.option])
        units = math.floor(float(stated) / self.unit_s)
        longer = Setting(self.setting, "<", str(units), scope=self.scope).answer(situation)
        return replace(longer, why=f"{longer.why}, and {self.option}={float(stated):g}s")


class TransactionalClients(_Condition, frozen=True):
    """The condition that the cluster has transactional clients of an affected kind.

    If the user states no kind, a cluster without a transactions topic has no transactional clients.

    Attributes:
        kinds: the values of ``--transactions`` that have the hazard.
        renewed: whether Java clients from 4.0 on are guarded by a new epoch for each transaction
            (KIP-890, ``transaction.version``).
        brokers: the first broker release that guards these Java clients.
    """

    kinds: tuple[str, ...]
    renewed: bool = False
    brokers: Number = RENEWED_FROM

    @property
    def says(self) -> str:
        """The condition in a few words."""
        tail = f", Java's with `{TRANSACTION_FEATURE}` < 2" if self.renewed else ""
        if self.brokers > RENEWED_FROM:
            tail += f" or brokers before {dotted(self.brokers)}"
        return f"transactional clients ({' or '.join(self.kinds)}{tail})"

    def answer(self, situation: Situation) -> ConditionAnswer:
        """Return yes, no or unknown for this cluster."""
        kind = situation.answers.get("transactions")
        if kind is None and situation.cluster.own_topic(TRANSACTIONS) is None:
            return absent(TRANSACTIONS)
        if kind is None:
            return ConditionAnswer(holds="unknown", why=CLIENT_OPTIONS["transactions"])
        if not self._has(kind):
            return ConditionAnswer(holds="no", why=f"transactions={kind}, as you say")
        return self._of_java(situation) if kind == "java" and self.renewed else YES

    def _of_java(self, situation: Situation) -> ConditionAnswer:
        """Return yes, no or unknown for Java clients, which obey ``transaction.version``."""
        level = situation.cluster.level(TRANSACTION_FEATURE)
        if level is None:
            new = Releases((Range(RENEWED_FROM),)).answer(situation)
            return YES if new.holds == "no" else ConditionAnswer(holds="unknown", why=FEATURES)
        old = Releases((Range((0,), self.brokers),)).answer(situation)
        if level < _RENEWED or old.holds != "no":
            return YES if level < _RENEWED else old
        why = f"{TRANSACTION_FEATURE}={level}, which Java clients obey from 4.0 on"
        return ConditionAnswer(holds="no", why=why)

    def _has(self, library: str) -> bool:
        """Return whether a library that uses the oldest version of the protocol has the hazard.

        ``OTHER`` libraries have only the hazards that librdkafka and Java's clients share.
        """
        common = LIBRDKAFKA in self.kinds and JAVA in self.kinds
        return library in self.kinds or (common and library != "none")

    def holds_for(self, client: ClientChoice, brokers: Release) -> bool:
        """Return whether a run's clients have the hazard on a new cluster of a release."""
        if client.release is None:
            return self._has(client.library)
        renewed = client.release.number >= RENEWED_FROM and brokers.number >= self.brokers
        return JAVA in self.kinds and not (self.renewed and renewed)


class JavaReleases(_Condition, frozen=True):
    """The condition that the clients are Kafka's Java clients of an affected release.

    The user must state the release, because brokers do not report it.

    Attributes:
        who: the affected clients, in words.
    """

    ranges: tuple[Range, ...]
    who: str = "producers"

    @property
    def says(self) -> str:
        """The condition in a few words."""
        words = (_range_says(first, fixed).removeprefix("from ") for first, fixed in self.ranges)
        return f"{self.who} of Java, {'; '.join(words)}"

    def answer(self, situation: Situation) -> ConditionAnswer:
        """Return yes, no or unknown for the user's answers."""
        word = situation.answers.get("client")
        if word in (None, JAVA):
            return ConditionAnswer(holds="unknown", why=CLIENT_OPTIONS["client"])
        library, _, version = (word or "").partition(":")
        if library == JAVA and self._of(numbers(version)):
            return YES
        return ConditionAnswer(holds="no", why=f"client={word}, as you say")

    def holds_for(self, client: ClientChoice, brokers: Release) -> bool:
        """Return whether the clients of a run have an affected release, on any brokers."""
        del brokers
        return client.release is not None and self._of(client.release.number)

    def _of(self, number: Number) -> bool:
        return any(first <= number < (fixed or END) for first, fixed in self.ranges)


class ConsumerGroups(_Condition, frozen=True):
    """The condition that there are consumer groups with affected settings of their consumers.

    If the user states no setting, a cluster without an offsets topic has no groups.

    Attributes:
        resets: the values of ``auto.offset.reset`` that have the hazard; empty for all.
        protocols: the values of ``group.protocol`` that have the hazard; empty for all.
    """

    resets: tuple[str, ...] = ()
    protocols: tuple[str, ...] = ()

    @property
    def says(self) -> str:
        """The condition in a few words."""
        named = {"auto.offset.reset": self.resets, "group.protocol": self.protocols}
        words = [f"`{name}` = {' or '.join(values)}" for name, values in named.items() if values]
        return "consumer groups" + (f" with {' and '.join(words)}" if words else "")

    def answer(self, situation: Situation) -> ConditionAnswer:
        """Return yes, no or unknown for this cluster."""
        named = {"offset-reset": self.resets, "group-protocol": self.protocols}
        options = [ClientOption(name, values) for name, values in named.items() if values]
        stated = any(option.name in situation.answers for option in options)
        if not stated and situation.cluster.own_topic(POSITIONS) is None:
            return absent(POSITIONS)
        return all_of([option.answer(situation) for option in options])


class ShareGroups(_Condition, frozen=True):
    """The condition that the cluster has share groups (KIP-932).

    A cluster without the topic of share-group state has no share groups.
    """

    @property
    def says(self) -> str:
        """The condition in a few words."""
        return f"share groups (`{SHARE_FEATURE}` ≥ 1)"

    def answer(self, situation: Situation) -> ConditionAnswer:
        """Return yes, no or unknown for this cluster."""
        on = Feature(SHARE_FEATURE, ">=", 1).answer(situation)
        if on.holds != "yes" or situation.cluster.own_topic(SHARE_GROUPS) is not None:
            return on
        return absent(SHARE_GROUPS)


def _within(release: ReleaseRange, first: Number, fixed: Number | None) -> Holds:
    """Return yes if all possible releases of a broker are in range, no if none is, else unknown."""
    end = fixed or END
    if release.exact:
        inside = first <= release.first < end
        beyond = fixed is None and release.first >= END
        return "yes" if inside else "unknown" if beyond else "no"
    if release.below is None:  # newer than the catalogue
        return "unknown" if fixed is None else "no"
    if release.first >= end or release.below <= first:
        return "no"
    return "yes" if first <= release.first and release.below <= end else "unknown"


def _compare(actual: str, comparison: Comparison, value: str) -> bool:
    if comparison == "=":
        return actual == value
    if comparison == "has":
        return value in actual.split(",")
    if comparison == "lists":
        return len(actual.split(",")) >= int(value)
    below = numbers(actual) < numbers(value)
    return below if comparison == "<" else not below


def _range_says(first: Number, fixed: Number | None) -> str:
    if first < (0, 9):
        return f"before {dotted(fixed)}" if fixed else f"up to {dotted(NEWEST)}"
    return f"from {dotted(first)} to " + (f"before {dotted(fixed)}" if fixed else dotted(NEWEST))


def coordination_name(coordination: Coordination) -> str:
    """Return the display name of a coordination: KRaft or ZooKeeper."""
    return "KRaft" if coordination == "kraft" else "ZooKeeper"


class Unclean(_Condition, frozen=True):
    """The condition that unclean elections are possible, or that they are impossible.

    Unclean elections are possible if a setting allows them and the release obeys this setting
    (KAFKA-12670).
    """

    allowed: bool

    @property
    def says(self) -> str:
        """The condition in a few words."""
        value = "true" if self.allowed else "false"
        return f"`{UNCLEAN}` = {value} (on KRaft before 3.9 it is always false)"

    def answer(self, situation: Situation) -> ConditionAnswer:
        """Return yes, no or unknown for this topic and cluster."""
        allowed = Setting(UNCLEAN, "=", "true").answer(situation)
        if allowed.holds == "yes" and situation.cluster.coordination == "kraft":
            heeded = Releases((Range((3, 9)),), guard=_IGNORED).answer(situation)
            allowed = heeded
        if self.allowed or allowed.holds == "unknown":
            return allowed
        if allowed.holds == "no":
            return YES
        return ConditionAnswer(holds="no", why=f"{UNCLEAN}=true", fixed=True)


class UncleanControllers(_Condition, frozen=True):
    """The condition that controllers' own settings allow unclean elections of a topic."""

    @property
    def says(self) -> str:
        """The condition in a few words."""
        return f"`{UNCLEAN}` = true on a controller, and not set for the topic"

    def answer(self, situation: Situation) -> ConditionAnswer:
        """Return yes if the topic has no own setting, and a controller allows unclean elections."""
        value = (situation.topic.settings or {}).get(UNCLEAN)
        if UNCLEAN not in situation.topic.inherits and value is not None:
            return ConditionAnswer(holds="no", why=f"{UNCLEAN}={value} of the topic")
        stated = situation.answers.get("controller-unclean")
        unclean = situation.cluster.unclean_controllers if stated is None else stated == "yes"
        if unclean is None:
            return ConditionAnswer(holds="unknown", why=CLIENT_OPTIONS["controller-unclean"])
        return YES if unclean else ConditionAnswer(holds="no", why="no controller allows it")


_IGNORED: Final = (
    f"KAFKA-12670: on KRaft before 3.9 {UNCLEAN} has no effect, but it has after an upgrade"
)

Condition = (
    On
    | Releases
    | AnyOf
    | Setting
    | Feature
    | Controllers
    | Replicas
    | Partitions
    | ClientOption
    | Outlasts
    | TransactionalClients
    | JavaReleases
    | ConsumerGroups
    | ShareGroups
    | Unclean
    | UncleanControllers
)
"""Any condition of a hazard. ``says`` is the condition as text; ``answer`` evaluates the
condition."""


def of_release_alone(part: Condition) -> bool:
    """Return whether a condition depends only on the release and the coordination."""
    if isinstance(part, AnyOf):
        return all(of_release_alone(inner) for parts in part.alternatives for inner in parts)
    return isinstance(part, On | Releases)


def ranges_of(part: Condition) -> tuple[Range, ...]:
    """Return the ranges of releases that bound a condition; none if it holds in any release."""
    if isinstance(part, AnyOf):
        every = [
            [span for inner in parts for span in ranges_of(inner)] for parts in part.alternatives
        ]
        return tuple(chain.from_iterable(every)) if all(every) else ()
    return part.ranges if isinstance(part, Releases | JavaReleases) else ()
