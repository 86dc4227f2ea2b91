"""Files of the model: schedules, and counterexamples of replication and of transactions."""

from pathlib import Path
from typing import Any, ClassVar, Final, Self

import msgspec

from highwater.harness.base.errors import StoreError, UsageError

FORMAT: Final = 1
"""The version of the file format. The version changes when older code would misread a newer
file."""


class ModelFile(msgspec.Struct, frozen=True):
    """The base class of schedules and counterexamples, which can be read and written as files.

    Attributes:
        kind: the name of the content in error messages, such as ``schedule``.
        found_by: the command that writes such a file; empty if no command does.
    """

    kind: ClassVar[str]
    found_by: ClassVar[str] = ""

    def check(self) -> None:
        """Raise a UsageError if the content contradicts itself."""

    def to_json(self) -> bytes:
        """Return the content as the bytes of a file."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2) + b"\n"

    def plain(self) -> dict[str, Any]:
        """Return the content in JSON types, as ``plan.json`` stores it."""
        content: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self))
        return content

    @classmethod
    def from_plain(cls, content: object) -> Self:
        """Read the content that ``plain`` returned.

        Raises:
            UsageError: the content has another format or kind, or contradicts itself.
        """
        version = content.get("format", FORMAT) if isinstance(content, dict) else FORMAT
        if version != FORMAT:
            raise UsageError(
                f"the {cls.kind} has format {version}, but this Highwater reads format {FORMAT}",
                hint=f"Write it again with this release of Highwater. {cls._writer()}".strip(),
            )
        try:
            read = msgspec.convert(content, cls, str_keys=True)
        except msgspec.ValidationError as error:
            raise UsageError(f"this is no {cls.kind}: {error}", hint=cls._writer()) from error
        read.check()
        return read

    @classmethod
    def from_json(cls, text: bytes) -> Self:
        """Read a file's content. Raises what ``from_plain`` raises."""
        try:
            content = msgspec.json.decode(text)
        except msgspec.DecodeError as error:
            raise UsageError(f"this is no {cls.kind}: {error}", hint=cls._writer()) from error
        return cls.from_plain(content)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a file.

        Raises:
            StoreError: the file cannot be read.
            UsageError: as ``from_plain``.
        """
        try:
            return cls.from_json(path.read_bytes())
        except OSError as error:
            raise StoreError(f"{path} cannot be read: {error.strerror}") from error

    @classmethod
    def _writer(cls) -> str:
        return f"{cls.found_by} writes such a file." if cls.found_by else ""
