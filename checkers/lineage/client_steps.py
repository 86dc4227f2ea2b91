"""The sentence and the evidence for an anomaly that clients' own operations show."""

from typing import Final

from highwater.checkers.lineage.evidence import Row
from highwater.checkers.lineage.subject import where
from highwater.harness.runs.history import FAIL, OK, SEND
from highwater.harness.runs.verdict import Witness

_SOURCE: Final = "history/ops"
_SAYS: Final = {
    "inconsistent-offsets": "clients know different records at {place}: {copies}.",
    "phantom": "{last} read {record} at {place}; no producer sent it.",
    "G1a": "{first} failed to send {record}, but {last} read it at {place}.",
    "precommitted-read": "{last} sent {record} and read it in the same operation.",
    "vanished": "{first} sent {record}, and it was read at {place}; {last} did not find it there.",
    "poll-skip": "{last} polled {to} after {from_}, and skipped {skipped}.",
    "int-poll-skip": "{last} received {to} right after {from_} in one operation, and skipped "
    "{skipped}.",
    "nonmonotonic-poll": "{last} polled {to} after {from_}: its position went back.",
    "int-nonmonotonic-poll": "{last} received {to} after {from_} in one operation: its position "
    "went back.",
    "nonmonotonic-send": "{last} sent {from_} first and then {to}, but the log has them in "
    "reverse order.",
    "int-nonmonotonic-send": "{last} sent {from_} first and then {to} in one operation, but the "
    "log has them in reverse order.",
    "resurrected-value": "{first} deleted the key of {record}, and the tombstone was "
    "acknowledged at a later offset. But the final read returned {record} "
    "at {place} as the key's last value.",
    "undelivered": "{first} sent {record}, which was acknowledged at {place}. Group {group} "
    "read past it, to {to}, but no member of the group ever received {record}.",
    "torn-transaction": "{first} sent {from_} and {to} in one transaction, and never learned "
    "its outcome. The log has the first record, at {copied}, but not the "
    "second.",
    "processed-twice": "{first} and {last} each read {record} at {place} in a transaction of group"
    " {group} that took effect.",
    "unprocessed": "{first} sent {record}, which was acknowledged at {place}. Transactions of "
    "group {group} read past it, to {to}, but no transaction that took effect "
    "read {record}.",
    "int-send-skip": "{last} sent {to} right after {from_} in one operation, but {skipped} is "
    "between them.",
}
_CYCLE: Final = (
    "{count} operations form a cycle: each is before the next, and the last is before the first."
)
_NAMED_MAX: Final = 3


def sentence(row: Row) -> str:
    """Return a sentence about an anomaly that has steps, a row of ``anomaly.ANOMALY``."""
    steps = row["steps"]
    first, last = steps[0], steps[-1]
    name = where(row["topic"], row["partition"])
    place = name if row["offset"] is None else f"offset {row['offset']} of {name}"
    says = _SAYS.get(row["kind"], _CYCLE).format(
        count=len(steps),
        first=first["process"],
        last=last["process"],
        from_=_record(first),
        to=_record(last),
        record=row["value"],
        place=place,
        copies=" and ".join(str(copy["value"]) for copy in row["copies"] or ()),
        skipped=_skipped(row),
        copied=(row["copies"] or [{"offset": None}])[0]["offset"],
        group=(row["copies"] or [{"note": None}])[0]["note"],
    )
    return f"{says[:1].upper()}{says[1:]}"


def witnesses(row: Row) -> tuple[Witness, ...]:
    """Return the evidence for an anomaly: the client operations in its steps, in order."""
    return tuple(
        Witness(
            who=step["process"],
            what=step["kind"],
            time_ns=step["invoke_ns"],
            says=f"{step['process']} {_did(step)} {_record(step)}{_ending(step)}.",
            source=_SOURCE,
        )
        for step in row["steps"]
    )


def _did(step: Row) -> str:
    return "sent" if step["kind"] == SEND else step["kind"]


def _ending(step: Row) -> str:
    if step["outcome"] == OK:
        return ", and it was acknowledged" if step["kind"] == SEND else ""
    return (
        ", but the client reported a failure" if step["outcome"] == FAIL else ", without a result"
    )


def _record(step: Row) -> str:
    if step["value"] is None:
        return f"operation {step['op']}"
    return str(step["value"]) + ("" if step["offset"] is None else f" at offset {step['offset']}")


def _skipped(row: Row) -> str:
    copies = row["copies"] or ()
    named = ", ".join(f"{copy['value']} at {copy['offset']}" for copy in copies[:_NAMED_MAX])
    more = (row["delta"] or 0) - 1 - min(len(copies), _NAMED_MAX)
    return f"{named} and {more} more" if more > 0 else named
