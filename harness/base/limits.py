"""The least and the greatest allowed values of options, for checks and for help texts."""

from typing import Final, NamedTuple

from highwater.harness.base.errors import UsageError

_HOUR_S: Final = 3600
_UNITS_S: Final = ((_HOUR_S, "h"), (60, "m"), (1, "s"))


class Limit(NamedTuple):
    """The least and the greatest allowed value of an option."""

    least: int
    most: int

    def __str__(self) -> str:
        return self.says

    @property
    def says(self) -> str:
        """The limit as text: ``16 to 900000``. The command line accepts numbers in this form."""
        return f"{self.least} to {self.most}"

    @property
    def lasting(self) -> str:
        """The limit as text, in the command line's notation for seconds: ``1s to 1h``."""
        return f"{_duration(self.least)} to {_duration(self.most)}"


def out_of_range(value: float, least: float, most: float, what: str) -> UsageError:
    """Return an error such as ``2,000,000,000 partitions: out of range``; ``what`` is the noun."""
    return UsageError(
        f"{value:,.15g} {what}: out of range", hint=f"From {least:,.15g} to {most:,.15g}."
    )


def _duration(seconds: int) -> str:
    whole = (unit for unit in _UNITS_S if seconds >= unit[0] and seconds % unit[0] == 0)
    unit, name = next(whole, _UNITS_S[-1])
    return f"{seconds // unit}{name}"


BROKERS: Final = Limit(1, 9)
CONTROLLERS: Final = Limit(1, 5)
LOG_DIRS: Final = Limit(1, 9)
PARTITIONS: Final = Limit(1, 1000)
CLIENTS: Final = Limit(0, 64)
INSTANCES: Final = Limit(1, CLIENTS.most)
OUTPUTS: Final = Limit(1, 1000)
ABORTS: Final = Limit(0, 1)
KEYS: Final = Limit(0, 1_000_000)
RECORD_BYTES: Final = Limit(16, 900_000)
DELIVERY_S: Final = Limit(1, _HOUR_S)
CHURN_S: Final = Limit(1, _HOUR_S)
FAULTS_S: Final = Limit(0, 7 * 24 * _HOUR_S)
CALM_S: Final = Limit(1, _HOUR_S)
OVERLAP: Final = Limit(1, BROKERS.most)
STEPS: Final = Limit(0, 100_000)
TIMES: Final = Limit(0, 100_000)
"""The limits for the number of injections of a fault in ``--budget``."""

WEIGHT: Final = Limit(1, 100)
"""The weight of a fault: how often a random schedule injects it, compared with the other faults."""
