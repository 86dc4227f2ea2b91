"""Files of ``java.util.Properties``: Java reads ISO 8859-1, and a path may have any letter."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater.clusters.core.java_properties import from_properties, to_properties

VALUES = st.text(st.characters(exclude_categories=["Cs"]))


@given(st.dictionaries(st.from_regex(r"[a-z][a-z.]{0,20}", fullmatch=True), VALUES))
def test_what_is_written_is_read_again(settings: dict[str, str]) -> None:
    text = to_properties(settings)
    assert text.isascii()
    assert from_properties(text) == settings


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        (r"a=p\u00e4ss", {"a": "p\u00e4ss"}),
        (r"a=one\ttwo\\three", {"a": "one\ttwo\\three"}),
        ("a = b  \nc:d\ne f", {"a": "b  ", "c": "d", "e": "f"}),
        ("a=1\x0b2\x0c3\x854", {"a": "1\x0b2\x0c3\x854"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=1\\\n   2\n#b=3\\\nc=\\\\\nd", {"a": "12", "c": "\\", "d": ""}),
        (r"a\=b\ c=\#", {"a=b c": "#"}),
        (r"a=\ud83d\ude00", {"a": "\U0001f600"}),
        ("", {}),
    ],
)
def test_files_are_read_as_java_reads_them(text: str, settings: dict[str, str]) -> None:
    assert from_properties(text) == settings


def test_a_broken_escape_is_an_error() -> None:
    with pytest.raises(ValueError, match="hexadecimal"):
        from_properties(r"a=\u00")
