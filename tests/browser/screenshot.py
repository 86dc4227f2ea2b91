"""Picture a report: ``python -m tests.browser.screenshot RUN OUT.png [WIDTH] [dark] [full]``."""

import sys
from pathlib import Path
from typing import Final

from highwater.harness.runs.store import Run
from highwater.reports.pages.run import write
from tests.browser.chromium import Scheme, chromium, opened

_ONLY_WHERE_THEY_PART: Final = """document.querySelectorAll('.pairs:has(.parting) > :not(.parting)')
  .forEach(step => step.hidden = true)"""
_END: Final = """(document.querySelector('.frame, .parting')?.getBoundingClientRect().bottom ?? 884)
  + scrollY + 16"""


def screenshot(
    page: Path, out: Path, *, width: int = 1280, scheme: Scheme = "light", full: bool = False
) -> None:
    """Picture of a page, whole or down to its first drawings: those of where two runs part."""
    with chromium() as browser, opened(browser, page, width=width, scheme=scheme) as (view, sins):
        if sins:
            raise SystemExit("\n".join(sins))
        view.evaluate(_ONLY_WHERE_THEY_PART)
        end = view.evaluate(_END)
        area = {"x": 0, "y": 0, "width": width, "height": min(int(end), 1700)}
        out.parent.mkdir(parents=True, exist_ok=True)
        if full:
            view.screenshot(path=str(out), full_page=True)
        else:
            view.screenshot(path=str(out), full_page=True, clip=area)  # type: ignore[arg-type]


def main(arguments: list[str]) -> None:
    """Write the report of a judged run anew (or take an HTML file as it is) and picture it."""
    source, out, *options = arguments
    page = Path(source) if source.endswith(".html") else write(Run(Path(source)))
    width = next((int(o) for o in options if o.isdecimal()), 1280)
    scheme: Scheme = "dark" if "dark" in options else "light"
    screenshot(page, Path(out), width=width, scheme=scheme, full="full" in options)


if __name__ == "__main__":
    main(sys.argv[1:])
