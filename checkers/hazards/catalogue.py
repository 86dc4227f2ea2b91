"""The hazards in hazards.toml, each reproduced on real brokers or in the model."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import msgspec

from highwater.checkers.hazards.hazard import Hazard
from highwater.harness.base.errors import UsageError
from highwater.harness.base.suggestions import nearest


def _read(written: dict[str, Any]) -> tuple[Hazard, ...]:
    """Return the entries of hazards.toml as hazards, with each named condition read.

    Hazards of the newest release come first. The others follow, the latest fix first. Hazards with
    the same fix are sorted by year, the latest first.
    """
    named = written["conditions"]
    for entry in written["hazards"]:
        entry["conditions"] = [
            named[part] if isinstance(part, str) else part for part in entry["conditions"]
        ]
    hazards = msgspec.convert(written["hazards"], tuple[Hazard, ...])
    return tuple(sorted(hazards, key=lambda hazard: (hazard.end, hazard.year), reverse=True))


_WRITTEN: Final = msgspec.toml.decode(Path(__file__).with_name("hazards.toml").read_bytes())
HAZARDS: Final = _read(_WRITTEN)
"""Every hazard, in the order of the page docs/hazards.md."""

NOT_SHOWN: Final[Mapping[str, str]] = MappingProxyType(_WRITTEN["not-shown"])
"""Issues of Kafka that were studied and could not be reproduced, with the reason."""

BY_ID: Final[Mapping[str, Hazard]] = MappingProxyType(
    {name: hazard for hazard in HAZARDS for name in (hazard.id, *hazard.aliases)}
)
"""Every hazard by its id and its aliases."""


def find_hazard(name: str) -> Hazard:
    """Return the hazard with the given id or alias.

    Raises:
        UsageError: no hazard has this id or alias; the hint names the nearest id or alias.
    """
    try:
        return BY_ID[name]
    except KeyError:
        raise UsageError(f"no hazard is called {name!r}", hint=nearest(name, BY_ID)) from None
