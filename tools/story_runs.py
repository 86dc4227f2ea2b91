"""Record results of stories on real brokers in docs/story-results.json, for docs/hazards.md.

    highwater matrix --kafka 4.4.0,3.9.2 --story torn-transaction --seed 0,1,2,3,4,5,6,7,8,9
    python -m tools.story_runs store/matrix-…

A call sums up all its matrices. A later call replaces results of the same story, release and
setting.
"""

import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Final

import msgspec

from highwater.harness.campaigns.matrix_cells import MatrixFolder, MatrixRow
from highwater.harness.releases.client_choice import LIBRDKAFKA

RESULTS: Final = Path(__file__).parent.parent / "docs" / "story-results.json"


class StoryRuns(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The runs of one story with one setting on one release.

    Attributes:
        client: library of the producers, as in ``--client``.
        day: the date of the last run, such as 2026-11-25.
        as_predicted: number of runs with exactly the predicted losses, forks and wrong reads.
        broken: number of runs that broke a guarantee.
    """

    story: str
    kafka: str
    acks: str
    min_isr: int
    unclean: bool
    day: str
    runs: int
    as_predicted: int
    broken: int
    client: str = LIBRDKAFKA

    @property
    def setting(self) -> tuple[str, str, str, int, bool, str]:
        """The values of all fields except the counts."""
        return self.story, self.kafka, self.acks, self.min_isr, self.unclean, self.client


def read() -> tuple[StoryRuns, ...]:
    """Return all recorded results."""
    if not RESULTS.exists():
        return ()
    return msgspec.json.decode(RESULTS.read_bytes(), type=tuple[StoryRuns, ...])


def of_matrices(folders: Sequence[MatrixFolder]) -> Iterable[StoryRuns]:
    """Yield the runs of judged matrices, by story, release and setting."""
    rows = [(row, folder) for folder in folders for row in folder.rows() if row.story is not None]
    rows.sort(key=lambda pair: _setting(pair[0]))
    for setting, group in groupby(rows, key=lambda pair: _setting(pair[0])):
        pairs = list(group)
        cells = [row for row, _ in pairs]
        started = max(at.store.open(row.run).environment().started_at_ns for row, at in pairs)
        story, kafka, acks, min_isr, unclean, client = setting
        yield StoryRuns(
            story=story,
            kafka=kafka,
            acks=acks,
            min_isr=min_isr,
            unclean=unclean,
            day=datetime.fromtimestamp(started / 1e9, UTC).date().isoformat(),
            runs=len(cells),
            as_predicted=sum(cell.as_predicted is True for cell in cells),
            broken=sum(cell.verdict == "invalid" for cell in cells),
            client=client,
        )


def _setting(row: MatrixRow) -> tuple[str, str, str, int, bool, str]:
    return row.story or "", row.kafka, row.acks, row.min_isr, row.unclean, row.client


def main(folders: Sequence[str]) -> None:
    """Add the runs of matrices to docs/story-results.json."""
    recorded = {runs.setting: runs for runs in read()}
    opened = [MatrixFolder(Path(folder)) for folder in folders]
    recorded |= {runs.setting: runs for runs in of_matrices(opened)}
    rows = [recorded[setting] for setting in sorted(recorded)]
    text = msgspec.json.format(msgspec.json.encode(rows), indent=1)
    RESULTS.write_bytes(text + b"\n")


if __name__ == "__main__":
    main(sys.argv[1:])
