"""Render pages from templates; all values are escaped.

Pages have no scripts and load no other file. The content security policy allows only the page's own
style sheet, by its hash. So even an unescaped value could not run code or load a file.
"""

import base64
import functools
import hashlib
from importlib.resources import files
from pathlib import Path

import jinja2
from markupsafe import Markup, escape

from highwater.harness.base.files import write_whole
from highwater.harness.base.wording import count
from highwater.harness.runs.verdict import LOSSY
from highwater.reports.model_text import rule_says, rule_word
from highwater.reports.text import logged, plain, seconds, short


def render(template: str, **values: object) -> str:
    """Render a page from ``templates/``; a variable that is not in ``values`` is an error."""
    css = _css()
    digest = base64.b64encode(hashlib.sha256(css.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    page = _environment().get_template(template)
    return page.render(css=Markup(css), policy=policy, **values)  # noqa: S704 - our own file


def save(path: Path, html: str) -> Path:
    """Write a page atomically."""
    write_whole(path, html.encode())
    return path


def drawing_css() -> str:
    """Return the style sheet's rules that a drawing in an SVG file needs."""
    lines = _css().splitlines()
    colours = lines[: lines.index("*{box-sizing:border-box}")]
    return "\n".join([*colours, *(line for line in lines if line.startswith("svg"))])


@functools.cache
def _css() -> str:
    lines = (files("highwater.reports") / "static" / "report.css").read_text("utf-8").splitlines()
    return "\n".join(stripped for line in lines if (stripped := line.strip()))


@functools.cache
def _environment() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("highwater.reports"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(seconds=seconds, short=short, count=count, look=_look)
    made.filters.update(whole=_whole, logged=logged, rule_says=rule_says, rule_word=rule_word)
    return made


def _look(word: str) -> str:
    """Return the style class for a verdict's word."""
    return "lossy" if word == LOSSY else word


def _whole(words: object) -> Markup:
    """Return an escaped text of any length, for commands, links and lists of names."""
    text = str(words)
    return escape(plain(text, len(text)))


def _finalize(value: object) -> object:
    """Escape invisible characters in a string that a template prints, and truncate it."""
    return value if isinstance(value, Markup) or not isinstance(value, str) else plain(value)
