"""A whole random run as honest brokers would have left it: a failover that loses acks=1 records."""

from pathlib import Path
from random import Random
from typing import Final

import msgspec

from highwater.harness.runs.plan import Workload
from highwater.harness.runs.store import Run
from tests.support.run_builder import RunBuilder

OLD: Final = "0.10.2.2"
NEW: Final = "2.8.2"
"""A release that cuts to the HW, and one that cuts where the leader's epoch ends."""


def failover(path: Path, dice: Random, *, kafka: str) -> Run:
    """Broker 1 leads and dies with what it alone holds; broker 2 leads; broker 1 comes back.

    With acks=1 its last records are lost, and that is explained.
    """
    tale = _Tale(RunBuilder(path, kafka=kafka, workload=Workload(acks="1")), kafka)
    plan = msgspec.structs.replace(tale.run.plan, story=None, nemesis=("kill",), duration_s=9)
    tale.run.plan = plan
    kept, lost, later = dice.randint(4, 9), dice.randint(1, 3), dice.randint(4, 9)
    tale.begin()
    tale.append(1, 0, kept)
    tale.replicate(kept)
    tale.append(1, 0, lost)
    tale.fail_over(kept)
    tale.append(2, 1, later, onto=kept)
    tale.come_back(kept, kept + later)
    tale.end(kept + later)
    return tale.run.write()


class _Tale:
    """What happens, and everything that shows it."""

    def __init__(self, run: RunBuilder, kafka: str) -> None:
        self.run = run
        self._old = kafka == OLD
        self._sent = 0
        self._log: list[tuple[int, int, str]] = []

    def begin(self) -> None:
        """Broker 1 leads, and the others follow it."""
        self.run.tick(500)
        self.run.leader(1, 0, [1, 2, 3])
        self.run.observe_all(0)
        self._leads(1, 0, 0)
        self._follows(2, 1, 0, 0)
        self._follows(3, 1, 0, 0)

    def append(self, leader: int, epoch: int, count: int, *, onto: int | None = None) -> None:
        """A leader appends and acknowledges records, from its LEO on."""
        first = len(self._log) if onto is None else onto
        del self._log[first:]
        for offset in range(first, first + count):
            name = f"p0-{self._sent}"
            self._sent += 1
            self.run.tick(20)
            self.run.send(name, offset, leader_epoch=epoch)
            self._log.append((offset, epoch, name))
            self.run.observe(leader, offset + 1)

    def replicate(self, leo: int) -> None:
        """The followers have everything."""
        self.run.tick(300)
        for broker in (2, 3):
            self.run.observe(broker, leo)
        self.run.tick(300)

    def fail_over(self, leo: int) -> None:
        """Broker 1 dies, and broker 2 leads with what it has."""
        self.run.tick(50)
        self.run.fault("kill", 1, "broker 1 is killed")
        self.run.observe(1, None)
        self.run.tick(2200)
        self.run.leader(2, 1, [2, 3])
        self._leads(2, 1, leo)
        self._follows(3, 2, 1, leo)
        self.run.tick(400)

    def come_back(self, cut: int, leo: int) -> None:
        """Broker 1 comes back, cuts off what nobody else has, and fetches the rest."""
        self.run.tick(300)
        self.run.observe(3, leo)
        self.run.tick(900)
        self.run.log_line(1, "start", "INFO [Kafka Server 1], started (kafka.server.KafkaServer)")
        self.run.fault("kill", 1, "broker 1 is healed", phase="heal")
        self.run.tick(200)
        self._follows(1, 2, 1, cut, cuts=True)
        self.run.observe(1, cut)
        self.run.tick(300)
        self.run.observe(1, leo)
        self.run.leader(2, 1, [2, 3, 1])

    def end(self, leo: int) -> None:
        """Everything is read up to the fence, and is on every disk."""
        self.run.tick(500)
        for offset, _, name in self._log:
            self.run.read(name, offset)
        self.run.fence(leo)
        self.run.disk((1, 2, 3), [*self._log, (leo, 1, "fence-0")])
        self.run.observe_all(leo + 1)

    def _leads(self, broker: int, epoch: int, offset: int) -> None:
        if not self._old:
            line = f"INFO [Broker id={broker}] Leader events-0 starts at leader epoch {epoch} from"
            self.run.log_line(broker, "leader", f"{line} offset {offset} with (s)", offset=offset)

    def _follows(
        self, broker: int, leader: int, epoch: int, offset: int, *, cuts: bool = False
    ) -> None:
        """A broker begins to follow another; up to 0.10 it always says that it cuts, to its HW."""
        if self._old:
            self._cuts(broker, offset)
            self.run.log_line(
                broker,
                "fetcher",
                f"INFO Added fetcher for [events-0, initOffset {offset} to broker"
                f" BrokerEndPoint({leader}",
                offset=offset,
            )
            return
        line = (
            f"INFO Added fetcher to broker {leader} for events-0 -> InitialFetchState("
            f"BrokerEndPoint(id={leader}, host=127.0.0.1:9092),{epoch},{offset}"
        )
        self.run.log_line(broker, "fetcher", line, offset=offset)
        if cuts:
            self.run.tick(30)
            self._cuts(broker, offset)

    def _cuts(self, broker: int, offset: int) -> None:
        line = f"INFO Truncating log events-0 to offset {offset}. (kafka.log.Log)"
        self.run.log_line(broker, "truncation", line, offset=offset)
