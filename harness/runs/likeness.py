"""The settings that a run's topic copies from an existing topic, and the settings not copied."""

from collections.abc import Mapping

import msgspec

SHOWN_MAX = 6
"""The greatest number of partitions whose brokers a message lists one by one."""


class Likeness(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The existing topic from which a run's topic was made.

    Attributes:
        topic: the existing topic's name.
        replicas: brokers of each partition of the run's topic, the preferred leader first.
        overrides: names of copied settings that the existing topic itself sets. The other copied
            settings come from its brokers.
        not_taken: name of a setting that was not copied, to the existing topic's value and the
            reason, as text.
    """

    topic: str
    replicas: tuple[tuple[int, ...], ...]
    overrides: tuple[str, ...] = ()
    not_taken: dict[str, str] = {}

    def says(self, settings: Mapping[str, str]) -> list[str]:
        """Return lines that show the sources of the topic's partitions and settings."""
        here = {name: value for name, value in settings.items() if name not in self.not_taken}
        overrides = {name: value for name, value in here.items() if name in self.overrides}
        brokers = {name: value for name, value in here.items() if name not in self.overrides}
        placed = [f"{number} on {_listed(on)}" for number, on in enumerate(self.replicas)]
        more = f" and {len(placed) - SHOWN_MAX} more" if len(placed) > SHOWN_MAX else ""
        return [
            f"partitions on the brokers of {self.topic}: {'; '.join(placed[:SHOWN_MAX])}{more}",
            *(
                [f"settings that {self.topic} itself sets: {_joined(overrides)}"]
                if overrides
                else []
            ),
            *([f"settings that its brokers set: {_joined(brokers)}"] * bool(brokers)),
            *(
                f"not copied from {self.topic}: {name}, there {why}"
                for name, why in self.not_taken.items()
            ),
        ]


def _joined(settings: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in sorted(settings.items()))


def _listed(brokers: tuple[int, ...]) -> str:
    return ",".join(map(str, brokers))
