"""Log directories written by hand, as a broker would leave them: segments and checkpoint files."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from aiokafka.record._crecords import (
    DefaultRecordBatchBuilder,
    LegacyRecordBatchBuilder,
    crc32c_cython,
)

Record = tuple[bytes | None, bytes | None]


def batch(  # noqa: PLR0913 - the fields of a batch
    base: int,
    records: Sequence[Record],
    *,
    epoch: int = 0,
    codec: int = 0,
    magic: int = 2,
    producer: tuple[int, int, int] = (-1, -1, -1),
    transactional: bool = False,
    control: bool = False,
    time_ms: int = 1000,
    deltas: Sequence[int] | None = None,
    times_ms: Sequence[int] = (),
) -> bytes:
    """One batch from offset ``base`` on.

    Args:
        producer: id, epoch and first sequence number.
        deltas: offsets of the records, counted from ``base``; without them there are no gaps.
        times_ms: timestamps of the records, instead of ``time_ms`` and so on.
    """
    deltas = deltas or range(len(records))
    if magic < 2:
        return _legacy(base, records, codec=codec, magic=magic, time_ms=time_ms)
    builder = DefaultRecordBatchBuilder(2, codec, int(transactional), *producer, 1 << 24)
    times_ms = times_ms or [time_ms + delta for delta in deltas]
    for delta, stamp, (key, value) in zip(deltas, times_ms, records, strict=True):
        assert builder.append(delta, stamp, key, value, []) is not None
    data = bytearray(builder.build())
    data[0:8] = base.to_bytes(8)
    data[12:16] = epoch.to_bytes(4)
    if control:
        data[22] |= 0x20
    return reseal(data)


def reseal(data: bytearray) -> bytes:
    """A batch of v2 with the checksum that its bytes ask for."""
    data[17:21] = int(crc32c_cython(memoryview(bytes(data[21:])))).to_bytes(4)
    return bytes(data)


def _legacy(base: int, records: Sequence[Record], *, codec: int, magic: int, time_ms: int) -> bytes:
    builder = LegacyRecordBatchBuilder(magic, codec, 1 << 24)
    for delta, (key, value) in enumerate(records):
        absolute = delta if codec and magic else base + delta
        assert builder.append(absolute, time_ms + delta, key, value) is not None
    data = bytearray(builder.build())
    if codec:
        data[0:8] = (base + len(records) - 1).to_bytes(8)
    return bytes(data)


def marker(base: int, *, producer: int, commit: bool, epoch: int = 0, time_ms: int = 1000) -> bytes:
    """A transaction's marker."""
    record = (b"\0\0\0\1" if commit else b"\0\0\0\0", b"\0\0\0\0\0\0")
    return batch(
        base,
        [record],
        epoch=epoch,
        producer=(producer, 0, -1),
        transactional=True,
        control=True,
        time_ms=time_ms,
    )


def plain(words: Iterable[str], *, base: int = 0, epoch: int = 0) -> bytes:
    """A batch for each word."""
    return b"".join(
        batch(base + index, [(None, word.encode())], epoch=epoch)
        for index, word in enumerate(words)
    )


@dataclass(slots=True)
class Broker:
    """One broker's log directory in the making."""

    path: Path
    broker: int
    checkpoints: dict[str, dict[str, int]] = field(default_factory=dict)

    def meta(self) -> "Broker":
        """Write ``meta.properties``."""
        self.path.mkdir(parents=True, exist_ok=True)
        text = f"#\n#Thu Jan 01 00:00:00 UTC 2026\nversion=0\nbroker.id={self.broker}\n"
        (self.path / "meta.properties").write_text(text)
        return self

    def log(self, name: str, *segments: bytes | tuple[int, bytes]) -> Path:
        """Write a replica's segments; each by its base offset, or the only one from 0 on."""
        folder = self.path / name
        folder.mkdir(parents=True, exist_ok=True)
        for segment in segments:
            base, data = segment if isinstance(segment, tuple) else (0, segment)
            (folder / f"{base:020d}.log").write_bytes(data)
        return folder

    def checkpoint(self, file: str, offsets: Mapping[str, int]) -> None:
        """Write a checkpoint file: of each replica's folder its offset."""
        lines = [f"{' '.join(name.rsplit('-', 1))} {offset}" for name, offset in offsets.items()]
        self.path.mkdir(parents=True, exist_ok=True)
        (self.path / file).write_text("\n".join(["0", str(len(lines)), *lines, ""]))

    def hw(self, **offsets: int) -> None:
        """Write HWs, of partition 0 of each topic."""
        named = {f"{topic}-0": offset for topic, offset in offsets.items()}
        self.checkpoint("replication-offset-checkpoint", named)

    def epochs(self, name: str, *entries: tuple[int, int]) -> None:
        """Write a replica's leader-epoch-checkpoint."""
        lines = [f"{epoch} {start}" for epoch, start in entries]
        text = "\n".join(["0", str(len(lines)), *lines, ""])
        (self.path / name / "leader-epoch-checkpoint").write_text(text)


def brokers(path: Path, count: int = 3) -> list[Broker]:
    """Log directories of brokers 1, 2 and so on."""
    return [Broker(path / f"broker-{one}", one).meta() for one in range(1, count + 1)]
