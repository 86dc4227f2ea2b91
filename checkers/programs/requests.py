"""The requests of a program and their responses, as the relay recorded them.

The requests show which instance wrote an output or committed a position, and when the instance got
the response. They also show outputs that no log has, because their Produce request failed or was
lost.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, NamedTuple, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from highwater.checkers.groups.events import FOREVER, Row
from highwater.checkers.kafka_files.reader import read_bytes
from highwater.checkers.kafka_files.segment_files import Segment
from highwater.checkers.programs.facts import Output, Position, ProgramRequest
from highwater.checkers.programs.output_log import ProducerSequence
from highwater.checkers.run_files import RunFiles
from highwater.harness.base.errors import UsageError
from highwater.harness.runs.history import REQUESTS, REQUESTS_TABLE
from highwater.harness.runs.plan import ProgramPlan
from highwater.harness.runs.programs.expressions import ProgramRecord, expression

_PRODUCE: Final = "Produce"
_COMMITS: Final = pa.array(["OffsetCommit", "TxnOffsetCommit"])
_MS_NS: Final = 1_000_000
"""The number of nanoseconds in a millisecond, the unit of brokers' timestamps."""

_SLACK_NS: Final = 100_000_000
_IN_MEMORY: Final = Segment(path="", run="", broker=0, topic="", partition=0, base_offset=0)


class GoneOutputs(NamedTuple):
    """Outputs of a Produce request that a broker acknowledged, but that no log has.

    Attributes:
        offset: the offset of the first output, in the broker's response.
        acks: the acks of the program's request.
    """

    time_ns: int
    answered_ns: int
    partition: int
    offset: int
    acks: int


class Repetition(NamedTuple):
    """A record that a broker acknowledged with the offset of an earlier record.

    Attributes:
        offset: the offset in the broker's response.
    """

    answered_ns: int
    partition: int
    offset: int
    sequence: ProducerSequence


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramRequests:
    """The requests of a run's program.

    Attributes:
        table: with the columns ``history.REQUESTS``; empty if requests were not recorded.
    """

    table: pa.Table
    topic: str
    program: ProgramPlan

    @classmethod
    def of(cls, case: RunFiles, program: ProgramPlan) -> Self:
        """Return the requests that a run has recorded."""
        path = case.tables.get(REQUESTS_TABLE)
        table = REQUESTS.empty_table() if path is None else pq.read_table(path)
        return cls(table=table, topic=case.plan.topic.name, program=program)

    def written_by(self, output: Output) -> ProgramRequest | None:
        """Return the Produce request that wrote an output, if its response shows this."""
        rows = self.table.filter(pc.equal(self.table["api"], _PRODUCE))
        rows = _at(rows, self.program.out, output.partition)
        begin, end = rows["offset"], pc.add(rows["offset"], rows["records"])
        covers = pc.and_(pc.less_equal(begin, output.offset), pc.greater(end, output.offset))
        return _first(rows.filter(pc.and_(covers, pc.equal(rows["error"], 0))))

    def committed_by(self, partition: int, position: Position) -> ProgramRequest | None:
        """Return the last request that may have committed this position."""
        rows = self.table.filter(pc.is_in(self.table["api"], _COMMITS))
        rows = _at(rows, self.topic, partition)
        rows = rows.filter(pc.equal(rows["offset"], position.offset))
        before = rows.filter(pc.less_equal(rows["time_ns"], position.time_ns + _MS_NS))
        return _first(before.sort_by([("time_ns", "descending")]))

    def commits(self) -> list[tuple[int, int, int]]:
        """Return the time, partition and offset of each request to commit a position."""
        rows = self.table.filter(pc.is_in(self.table["api"], _COMMITS))
        rows = rows.filter(pc.equal(rows["topic"], self.topic))
        columns = (rows[name].to_pylist() for name in ("time_ns", "partition", "offset"))
        return list(zip(*columns, strict=True))

    def gone(self, appended_ns: Mapping[tuple[int, int], int]) -> list[GoneOutputs]:
        """Return acknowledged outputs that are lost: their offset has no record, or a later record.

        Args:
            appended_ns: the append time of the record at each partition and offset; the function
                ignores partitions without a record.
        """
        rows = self.table.filter(pc.equal(self.table["api"], _PRODUCE))
        rows = rows.filter(pc.and_(pc.equal(rows["error"], 0), pc.is_valid(rows["answered_ns"])))
        partitions = {partition for partition, _ in appended_ns}
        return [
            GoneOutputs(**{name: row[name] for name in GoneOutputs._fields})
            for row in rows.sort_by("time_ns").to_pylist()
            if row["partition"] in partitions and (row["offset"] or 0) >= 0
            if appended_ns.get((row["partition"], row["offset"]), FOREVER)
            > row["answered_ns"] + _SLACK_NS
        ]

    def failed(self, names: Sequence[str]) -> Mapping[str, list[ProgramRequest]]:
        """Return, by input, the failed or lost Produce requests with outputs of these inputs."""
        by_name = defaultdict[str, list[ProgramRequest]](list)
        for name, row, *_ in self._recorded(names):
            if row["error"] != 0:
                by_name[name].append(_request(row))
        return by_name

    def repeated(self, names: Sequence[str]) -> Mapping[str, Repetition]:
        """Return the records with these names that brokers dropped as retries of other records."""
        return {
            name: Repetition(
                row["answered_ns"],
                row["partition"],
                row["offset"] + number,
                ProducerSequence.of(record),
            )
            for name, row, number, record in self._recorded(names)
            if row["error"] == 0
        }

    def _recorded(self, names: Sequence[str]) -> Iterator[tuple[str, Row, int, Row]]:
        """Yield the name, request, batch index and record of each output that names an input."""
        chosen = {*names}
        rows = self.table.filter(pc.is_valid(self.table["batch"])).sort_by("time_ns")
        try:
            named = expression(self.program.match)
            for row in rows.to_pylist():
                parts = read_bytes(row["batch"], _IN_MEMORY)
                records = chain.from_iterable(part.to_pylist() for part in parts)
                for number, record in enumerate(records):
                    of_record = named(ProgramRecord(record["value"], record["key"]))
                    for name in chosen.intersection(of_record):
                        yield name, row, number, record
        except UsageError:  # this process may lack the user's function
            return


def _at(rows: pa.Table, topic: str, partition: int) -> pa.Table:
    at = pc.and_(pc.equal(rows["topic"], topic), pc.equal(rows["partition"], partition))
    return rows.filter(at)


def _first(rows: pa.Table) -> ProgramRequest | None:
    return next((_request(row) for row in rows.slice(0, 1).to_pylist()), None)


def _request(row: Mapping[str, Any]) -> ProgramRequest:
    return ProgramRequest(**{name: row[name] for name in ProgramRequest._fields})
