"""Files in the format of ``java.util.Properties``, which Java reads as ISO 8859-1."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

_LINE: Final = re.compile(r"\r\n|\r|\n")
_BLANKS: Final = " \t\f"
_KEY: Final = re.compile(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPED: Final = re.compile(r"\\(u[0-9A-Fa-f]{4}|[^u]|$|u)", re.DOTALL)
_CONTROLS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_TO_ESCAPE: Final = re.compile(r"[^ -\[\]-~]|^ ")


def to_properties(settings: Mapping[str, str]) -> str:
    """Return the ASCII text of a file with these settings. The names are not escaped."""
    return "".join(f"{name}={_TO_ESCAPE.sub(_escape, value)}\n" for name, value in settings.items())


def from_properties(text: str) -> dict[str, str]:
    """Return the settings in a file's text, as ``Properties.load`` reads them.

    Raises:
        ValueError: a backslash and ``u`` are not followed by four hexadecimal digits.
    """
    settings = {}
    for line in _logical_lines(text):
        match = _KEY.fullmatch(line)
        assert match is not None, line
        settings[_unescape(match[1])] = _unescape(match[2])
    return settings


def _logical_lines(text: str) -> Iterator[str]:
    """Yield lines without comments. Continuation lines are joined to their first line."""
    line = ""
    for natural in _LINE.split(text):
        part = natural.lstrip(_BLANKS)
        if not line and (not part or part[0] in "#!"):
            continue
        line += part
        if (len(line) - len(line.rstrip("\\"))) % 2:
            line = line[:-1]
            continue
        yield line
        line = ""
    if line:
        yield line


def _unescape(text: str) -> str:
    def character(match: re.Match[str]) -> str:
        code = match[1]
        if code == "u":
            raise ValueError("\\u is not followed by four hexadecimal digits")
        return chr(int(code[1:], 16)) if code[:1] == "u" else _CONTROLS.get(code, code)

    plain = _ESCAPED.sub(character, text)
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    if character in " \\":
        return f"\\{character}"
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
