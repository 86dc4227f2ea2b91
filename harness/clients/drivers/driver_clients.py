"""A client library for ``harness.clients``: each client is a client driver's process."""

import weakref
from collections.abc import Callable
from typing import Final, NoReturn

from highwater.harness.base.errors import HarnessError
from highwater.harness.clients.client_config import Settings
from highwater.harness.clients.drivers.client_driver import (
    ClientDriver,
    DriverProcess,
    Role,
    opened,
)
from highwater.harness.clients.drivers.driver_consumer import DriverConsumer
from highwater.harness.clients.drivers.driver_errors import DriverOutcomes
from highwater.harness.clients.drivers.driver_producer import DriverProducer


class DriverClients:
    """The clients of a driver. Each client has its own process.

    Args:
        start: starts a process.
        every: whether the driver also gets settings that are not in the specification.

    Attributes:
        libraries: the names of the libraries, as the drivers report them.
    """

    outcomes: Final = DriverOutcomes()

    def __init__(self, start: Callable[[], DriverProcess], *, every: bool = False) -> None:
        self._start = start
        self._every = every
        self.libraries: set[str] = set()
        self._drivers: weakref.WeakSet[ClientDriver] = weakref.WeakSet()

    def producer(self, settings: Settings) -> DriverProducer:
        """Open a producer of single records or of transactions."""
        return DriverProducer(self._opened(settings, "producer"))

    single = producer

    def consumer(self, settings: Settings) -> DriverConsumer:
        """Return a consumer. It starts its driver when it subscribes or gets partitions."""
        return DriverConsumer(
            lambda member: self._opened(settings, "consumer", member=member), settings
        )

    def share_consumer(self, settings: Settings) -> NoReturn:
        """Raise an error: drivers have no share consumers (KIP-932)."""
        raise HarnessError(
            f"{settings['client.id']} cannot join a share group: its library has no share consumers"
        )

    def close(self) -> None:
        """Kill all clients that this object opened. Never raises an error."""
        for driver in tuple(self._drivers):
            driver.kill()

    def _opened(self, settings: Settings, role: Role, *, member: bool = False) -> ClientDriver:
        driver = opened(self._start(), settings, role, member=member, every=self._every)
        self._drivers.add(driver)
        self.libraries.add(driver.library)
        return driver
