"""Text in Markdown pages stays text."""

import pytest

from highwater.reports.markdown import escape, table


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("0.10.2.2 local: loss, acks=all, min.isr 1", "0.10.2.2 local: loss, acks=all, min.isr 1"),
        ("runs/a_b_c/report.html", "runs/a_b_c/report.html"),
        ("_a_ *b* __c__", r"\_a\_ \*b\* \_\_c\_\_"),
        ("a | b\n# c", r"a \| b \# c"),
        ("<b> &lt; [x](y) `z` \\", r"\<b\> \&lt; \[x\](y) \`z\` \\"),
    ],
)
def test_nothing_is_markup_and_a_path_stays_as_it_is(text: str, escaped: str) -> None:
    assert escape(text) == escaped


def test_a_table_has_a_line_for_its_heads_and_each_row() -> None:
    assert table(("kind", "count"), [("lost-write", 3)]) == (
        "| kind | count |\n| --- | --- |\n| lost-write | 3 |\n"
    )
