"""The cluster drivers there are, by the name that a plan gives them."""

from collections.abc import Mapping
from typing import Final

from clusters.cluster import Driver
from clusters.local import open_cluster

DRIVERS: Final[Mapping[str, Driver]] = {"local": open_cluster}
