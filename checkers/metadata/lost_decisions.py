"""``lost-decision``: a decision that a controller announced is missing at the end of the run.

*Announced* decisions are the responses to the harness's own requests
(``harness.runs.history.DECISIONS``), and the leaders and in-sync replicas that the observer
received (``PARTITIONS``). On KRaft these decisions are final (KIP-595): a controller responds after
the commit, and brokers return only decisions below the high watermark.

*The state at the end*: on KRaft, the checker replays the controllers' metadata logs on disk. The
most up-to-date log counts, because only a controller with such a log is elected. On ZooKeeper, it
is the state that the harness read from ZooKeeper before the freeze.

A decision is not lost if a later request may have changed it, even a request without a response. An
ISR is judged only if all ISRs of its leader epoch are known from the log. "No leader" is not
judged: a broker also reports it if it does not know the leader's address. Without an announced
decision, or without a known state at the end, the run is "not judged".
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

import pyarrow as pa

from highwater.checkers.core.anomaly import SCHEMA
from highwater.checkers.core.anomaly_kinds import LOST_DECISION, Kind, Severity
from highwater.checkers.core.checker import checker
from highwater.checkers.core.promises import if_controllers_keep_disks
from highwater.checkers.kafka_files.metadata_records import MetadataRecordError
from highwater.checkers.metadata.controller_logs import ControllerLog, Row, controller_logs
from highwater.checkers.metadata.decided_state import DecidedState, Registration, replay
from highwater.checkers.run_files import RunFiles
from highwater.checkers.run_tables import Tables
from highwater.harness.runs.history import DECISIONS_TABLE

_PARTITIONS: Final = "events/partitions"
_SEEN: Final = ["time_ns", "topic", "partition", "leader", "leader_epoch", "isr"]
_END: Final = "end"
_ANSWERED: Final = "answered"
MISSING: Final = "missing"

_Loss = tuple[str, int | None, str, str]
"""A lost decision: the topic, feature or controller; the partition; the decision; the state at
the end."""


def _says(row: Row) -> str:
    return f"A controller announced that {row['value']}, but {row['copies'][0]['note']}."


def _idle(tables: Tables, case: RunFiles) -> str:
    logs = controller_logs(tables)[case.key]
    if logs and all(log.damage or log.unread for log in logs):
        return "no metadata log of a controller could be read to its end"
    decisions = case.rows(DECISIONS_TABLE)
    if not logs and all(row["evidence"] != _END for row in decisions):
        return "the controllers' state at the end was not recorded"
    seen = case.rows(_PARTITIONS, ["time_ns", "leader_epoch"])
    answered = any(row["evidence"] == _ANSWERED for row in decisions)
    if answered or any(row["leader_epoch"] is not None for row in seen):
        return ""
    return "no controller acknowledged a request"


@checker(
    Kind(
        LOST_DECISION,
        guarantee="A decision that a controller announced is not lost afterwards.",
        singular="decision of a controller is lost",
        plural="decisions of controllers are lost",
        severity=Severity.CRITICAL,
        promise="durability: an announced decision is committed (KIP-595, ZooKeeper's quorum)",
        breaks=if_controllers_keep_disks,
        says=_says,
    ),
    idle=_idle,
)
def lost_decision(tables: Tables) -> pa.Table:
    """Return the decisions that are missing at the end, each once."""
    rows = [
        {
            "run": case.key,
            "kind": LOST_DECISION,
            "topic": subject,
            "partition": partition,
            "value": decided,
            "copies": [{"partition": partition, "note": instead}],
        }
        for case in tables.cases
        for subject, partition, decided, instead in _losses(case, controller_logs(tables)[case.key])
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def _losses(case: RunFiles, logs: list[ControllerLog]) -> list[_Loss]:
    decisions = case.rows(DECISIONS_TABLE)
    seen = case.rows(_PARTITIONS, _SEEN)
    ends = _ends(decisions, logs)
    if not ends:
        return []
    requests = [row for row in decisions if row["evidence"] != _END]
    by_end = [[*_unmet(requests, end), *_unseen(seen, end)] for end in ends]
    first, *others = by_end
    # If logs are equally up to date and differ, that is another anomaly, metadata-divergence.
    return [loss for loss in dict.fromkeys(first) if all(loss in losses for losses in others)]


def _ends(decisions: list[Row], logs: list[ControllerLog]) -> list[DecidedState]:
    """Return the last state of each controller that may be elected; empty if none is known."""
    if logs:
        whole = [log for log in logs if not (log.damage or log.unread)]
        best = max((log.rank for log in whole), default=None)
        return list(_replayed(log for log in whole if log.rank == best))
    read = [row for row in decisions if row["evidence"] == _END]
    return [_read_state(read)] if read else []


def _replayed(logs: Iterable[ControllerLog]) -> Iterator[DecidedState]:
    error: MetadataRecordError | None = None
    states = 0
    for log in logs:
        try:
            yield replay(log)
            states += 1
        except MetadataRecordError as senseless:
            error = senseless
    if error is not None and not states:
        raise error


def _read_state(rows: list[Row]) -> DecidedState:
    """Return the state in ZooKeeper at the end, with only the last state of each partition."""
    state = DecidedState(begun_late=True)
    replicas = {
        (row["subject"], row["partition"]): _brokers(row)
        for row in rows
        if row["kind"] == "replicas"
    }
    for row in rows:
        key = (row["subject"], row["partition"])
        match row["kind"]:
            case "topic" if row["value"] != MISSING:
                state.topics[row["subject"].encode()] = row["subject"]
            case "setting":
                state.settings.setdefault(row["subject"], {})[row["setting"]] = row["value"]
            case "leader":
                now = Registration(
                    leader=int(row["value"]),
                    leader_epoch=row["epoch"],
                    isr=(),
                    replicas=replicas.get(key, ()),
                )
                state.partitions[key] = [now]
    return state


def _brokers(row: Row) -> tuple[int, ...]:
    return tuple(int(broker) for broker in row["value"].split(","))


def _unmet(requests: list[Row], end: DecidedState) -> Iterator[_Loss]:
    """Yield a loss if the last successful request about a topic, voter and so on has no effect."""
    last = {}
    for row in requests:
        thing = row["kind"], row["subject"], row["partition"], row["setting"]
        last[*thing, row["value"] if row["kind"] == "leader" else None] = row
    for row in last.values():
        if row["evidence"] == _ANSWERED and (loss := _CHECKS[row["kind"]](row, end)):
            yield loss


def _topic(row: Row, end: DecidedState) -> _Loss | None:
    topic = row["subject"]
    if topic in end.topics.values():
        return None
    return topic, None, f"topic {topic} was created", "it does not exist at the end"


def _setting(row: Row, end: DecidedState) -> _Loss | None:
    topic, setting = row["subject"], row["setting"]
    now = end.settings.get(topic, {}).get(setting)
    if now == row["value"] or topic not in end.topics.values():
        return None
    decided = f"{setting} of {topic} was set to {row['value'] or 'the default'}"
    return topic, None, decided, f"at the end its value is {now or 'the default'}"


def _replicas(row: Row, end: DecidedState) -> _Loss | None:
    topic, partition = row["subject"], row["partition"]
    history = end.partitions.get((topic, partition))
    if history is None or {*history[-1].replicas} == {*_brokers(row)}:
        return None
    decided = f"{topic}-{partition} was given the replicas {row['value']}"
    return topic, partition, decided, f"at the end its replicas are {_listed(history[-1].replicas)}"


def _leader(row: Row, end: DecidedState) -> _Loss | None:
    topic, partition, leader = row["subject"], row["partition"], int(row["value"])
    history = end.partitions.get((topic, partition), [])
    if not history or end.begun_late or leader in {past.leader for past in history}:
        return None
    decided = f"broker {leader} was made the leader of {topic}-{partition}"
    return topic, partition, decided, "at the end no leader epoch has this leader"


def _feature(row: Row, end: DecidedState) -> _Loss | None:
    feature, level = row["subject"], end.features.get(row["subject"], 0)
    if level >= int(row["value"]):
        return None
    decided = f"feature {feature} was finalized at level {row['value']}"
    return feature, None, decided, f"at the end its level is {level}"


def _voter(row: Row, end: DecidedState) -> _Loss | None:
    controller, votes = int(row["subject"]), row["value"] is not None
    if end.voters is None or (controller in end.voters) == votes:
        return None
    decided = f"controller {controller} was {'added to' if votes else 'removed from'} the voters"
    return row["subject"], None, decided, f"at the end the voters are {_listed(end.voters)}"


_CHECKS: Final[dict[str, Callable[[Row, DecidedState], _Loss | None]]] = {
    "topic": _topic,
    "setting": _setting,
    "replicas": _replicas,
    "leader": _leader,
    "feature": _feature,
    "voter": _voter,
}


def _unseen(seen: list[Row], end: DecidedState) -> Iterator[_Loss]:
    """Yield a loss for each observed leader or ISR that the metadata log lacks."""
    for row in seen:
        topic, partition, epoch = row["topic"], row["partition"], row["leader_epoch"]
        if epoch is None:
            continue
        if row["leader"] >= 0 and (
            loss := _lost_leader(topic, partition, row["leader"], epoch, end)
        ):
            yield loss
        elif (past := _isrs(topic, partition, epoch, end)) and {*row["isr"]} not in past:
            decided = f"the ISR of {topic}-{partition} was {_listed(row['isr'])}"
            there = ", then ".join(map(_listed, past))
            yield (
                topic,
                partition,
                f"{decided} in leader epoch {epoch}",
                f"the metadata log has {there} in that epoch",
            )


def _isrs(topic: str, partition: int, epoch: int, end: DecidedState) -> list[set[int]]:
    """Return all ISRs of a leader epoch, in order; an empty list if any ISR is unknown."""
    history = end.partitions.get((topic, partition), [])
    if end.begun_late and history and epoch <= history[0].leader_epoch:
        return []
    return [{*past.isr} for past in history if past.leader_epoch == epoch]


def _lost_leader(
    topic: str, partition: int, leader: int, epoch: int, end: DecidedState
) -> _Loss | None:
    history = end.partitions.get((topic, partition), [])
    decided = f"broker {leader} led {topic}-{partition} in leader epoch {epoch}"
    if not history:
        there = topic in end.topics.values()
        return (
            (topic, partition, decided, "at the end the partition does not exist")
            if there
            else None
        )
    leaders = {past.leader for past in history if past.leader_epoch == epoch}
    if leader in leaders or (not leaders and epoch < history[0].leader_epoch):
        return None
    last = history[-1].leader_epoch
    if not leaders:
        return topic, partition, decided, f"at the end the last leader epoch is {last}"
    return (
        topic,
        partition,
        decided,
        f"at the end leader epoch {epoch} has leader {_listed(leaders)}",
    )


def _listed(brokers: Iterable[int]) -> str:
    return ",".join(map(str, sorted(brokers))) or "no broker"
