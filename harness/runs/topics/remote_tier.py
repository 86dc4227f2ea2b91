"""Names of folders and files of LocalTieredStorage, which contains only complete segments.

``kafka-tiered-storage/<topic>-<partition>-<topic id>/<base offset>-<segment id>.log``; ids are in
url-safe base64, 22 letters. Two files of a partition may have the same base offset and the same
records, because two leaders may have copied them.
"""

import re
from typing import Final

_ID: Final = r"[A-Za-z0-9_-]{22}"
_FOLDER: Final = re.compile(rf"(?P<topic>.+)-(?P<partition>\d+)-{_ID}")
_SEGMENT: Final = re.compile(rf"(?P<base>\d{{20}})-{_ID}\.log")


def remote_partition(folder: str, topic: str) -> int | None:
    """Return the partition in a folder's name; None if the folder belongs to another topic."""
    name = _FOLDER.fullmatch(folder)
    return int(name["partition"]) if name and name["topic"] == topic else None


def remote_segment(file: str) -> int | None:
    """Return the base offset in a segment file's name; None for other files."""
    name = _SEGMENT.fullmatch(file)
    return int(name["base"]) if name else None
