"""``lost-write``, ``unseen`` and ``duplicate``: what became of records, as anomalies.

They are told by Spark's tasks, a file of ``checkers.fates`` each: for Spark itself to write 62,500
of them took 0.4 s, and a task takes a tenth.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from checkers import deciding, kinds, leaves
from checkers.anomaly import SCHEMA
from checkers.checker import checker
from checkers.kinds import Kind, Severity
from checkers.promises import DURABLE, if_acknowledged_is_kept, if_idempotent, never
from checkers.tables import Tables

_COPY: Final = SCHEMA.field("copies").type.value_type
_MET: Final = "a reader met it"
_TOGETHER: Final = 50_000


@checker(
    Kind(
        kinds.LOST,
        guarantee="An acknowledged record is read by every reader that passes its offset.",
        one="acknowledged record was lost",
        many="acknowledged records were lost",
        severity=Severity.CRITICAL,
        promise=DURABLE,
        breaks=if_acknowledged_is_kept,
    ),
    Kind(
        kinds.UNSEEN,
        guarantee="The final read reaches the offset of every acknowledged record.",
        one="acknowledged record is out of sight",
        many="acknowledged records are out of sight",
        severity=Severity.UNDECIDED,
        promise=DURABLE,
        breaks=never,
        absence=True,
    ),
    Kind(
        kinds.DUPLICATE,
        guarantee="A record that was sent once is read at one offset.",
        one="record stands in the log twice",
        many="records stand in the log twice",
        severity=Severity.SERIOUS,
        promise="exactly once: an idempotent producer writes a record once (KIP-98)",
        breaks=if_idempotent,
    ),
)
def records(tables: Tables) -> Path:
    """What became of records that is not as it should be."""
    folder = tables.kept("records")
    folder.mkdir(parents=True, exist_ok=True)
    tables.view.each(leaves.leaves(tables.decided), _Telling(folder))
    return folder


class _Telling:
    """A task of Spark's: the records of a file as anomalies."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __call__(self, number: int, path: Path) -> None:
        with leaves.writer(self._folder, number, SCHEMA) as writer:
            for found in leaves.batches(path, _TOGETHER):
                for kind, tell in _KINDS.items():
                    writer.write_batch(_anomalies(kind, tell(found)))


def _lost(records: pa.RecordBatch) -> pa.RecordBatch:
    """Acknowledged, and not read by the final reader, which has passed its offset.

    A record without an offset (acks=0) is lost when the final reader has read its whole partition,
    fence included; the whole topic where its partition was never told either. If a reader met it
    before, its copy says where.
    """
    lost = records.filter(pc.equal(records["fate"], deciding.LOST))
    met = pc.and_(pc.is_null(lost["offset"]), pc.is_valid(lost["place"]))
    return lost.append_column("copies", _copies(lost, ["place"], met, note=_MET))


def _unseen(records: pa.RecordBatch) -> pa.RecordBatch:
    """Acknowledged, not read at the end, and no final reader came as far as its offset."""
    return records.filter(pc.equal(records["fate"], deciding.UNSEEN))


def _duplicate(records: pa.RecordBatch) -> pa.RecordBatch:
    """Met by the final read at two offsets or more; the first and last are copies."""
    twice = records.filter(pc.not_equal(records["first"], records["last"]))
    all_of_them = pa.repeat(pa.scalar(value=True), len(twice))
    copies = _copies(twice, ["first", "last"], all_of_them)
    at = twice.schema.get_field_index("offset")
    return twice.set_column(at, "offset", twice["first"]).append_column("copies", copies)


_KINDS: Final[Mapping[str, Callable[[pa.RecordBatch], pa.RecordBatch]]] = {
    kinds.LOST: _lost,
    kinds.UNSEEN: _unseen,
    kinds.DUPLICATE: _duplicate,
}


def _copies(
    records: pa.RecordBatch, places: list[str], shown: pa.Array, note: str | None = None
) -> pa.ListArray:
    """Where records were met, of those that show it: on no broker that we know of."""
    told = records.filter(shown)
    number = pa.array(np.repeat(np.arange(len(told)), len(places)))
    offset = np.stack([told[name].to_numpy() for name in places], axis=1).ravel()
    given = {
        "partition": told["partition"].take(number),
        "offset": pa.array(offset, pa.int64()),
        "value": told["value"].take(number),
        "note": pa.array([note], pa.string()).take(pa.array(np.zeros(len(number), np.int64))),
    }
    columns = [given.get(field.name, pa.nulls(len(number), field.type)) for field in _COPY]
    sizes = len(places) * shown.to_numpy(zero_copy_only=False).astype(np.int32)
    return pa.ListArray.from_arrays(
        pa.array(np.concatenate([[0], np.cumsum(sizes)]), pa.int32()),
        pa.StructArray.from_arrays(columns, fields=list(_COPY)),
        mask=pc.invert(shown),
    )


def _anomalies(kind: str, found: pa.RecordBatch) -> pa.RecordBatch:
    names = found.schema.names
    arrays = [
        found[one.name] if one.name in names else pa.nulls(len(found), one.type) for one in SCHEMA
    ]
    arrays[SCHEMA.get_field_index("kind")] = pa.repeat(kind, len(found))
    return pa.record_batch(arrays, schema=SCHEMA)
