"""HTML from templates: everything escaped, nothing loaded, nothing run.

The page's own style sheet is allowed by its hash; the content security policy forbids all else,
so a record whose value is markup could neither run nor fetch anything, were it not escaped.
"""

import base64
import functools
import hashlib
from importlib.resources import files
from pathlib import Path

import jinja2
from markupsafe import Markup

from highwater.harness.base.files import write_whole
from highwater.harness.base.wording import count
from highwater.reports.model_text import rule_says, rule_word
from highwater.reports.text import logged, plain, seconds, short


def render(template: str, **values: object) -> str:
    """Return a whole page from ``templates/``; a name that it lacks is an error."""
    css = _css()
    digest = base64.b64encode(hashlib.sha256(css.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    page = _environment().get_template(template)
    return page.render(css=Markup(css), policy=policy, **values)  # noqa: S704 - our own file


def save(path: Path, html: str) -> Path:
    """Write a page whole or not at all."""
    write_whole(path, html.encode())
    return path


def drawing_css() -> str:
    """Return what a drawing needs of the style sheet where it is a file of its own."""
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
    made.filters.update(seconds=seconds, short=short, count=count)
    made.filters.update(logged=logged, rule_says=rule_says, rule_word=rule_word)
    return made


def _finalize(value: object) -> object:
    """Every string that a template prints: invisible characters spelled out, length cut."""
    return value if isinstance(value, Markup) or not isinstance(value, str) else plain(value)
