"""A Chromium that reaches nothing but the file it was told to open."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal

from playwright.sync_api import Browser, Page, Route, sync_playwright

CHROMIUM: Final = Path("/usr/bin/chromium")
Scheme = Literal["light", "dark"]

_FLAGS: Final = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """Debian's Chromium, headless, with a fresh profile."""
    root = hasattr(os, "geteuid") and os.geteuid() == 0
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=str(CHROMIUM), args=list(_FLAGS), chromium_sandbox=not root
        )
        try:
            yield browser
        finally:
            browser.close()


@contextlib.contextmanager
def opened(
    browser: Browser,
    path: Path,
    *,
    width: int,
    scheme: Scheme = "light",
    height: int = 900,
    scripts: bool = False,
) -> Iterator[tuple[Page, list[str]]]:
    """A report in an offline page, and its sins: foreign requests, console messages, errors.

    Args:
        scripts: whether JavaScript is on. Reports have none, and are read without it.
    """
    sins: list[str] = []
    address = path.resolve().as_uri()
    context = browser.new_context(
        offline=True,
        color_scheme=scheme,
        viewport={"width": width, "height": height},
        reduced_motion="reduce",
        java_script_enabled=scripts,
    )

    def route(each: Route) -> None:
        if each.request.url.partition("#")[0] == address:
            each.continue_()
            return
        sins.append(f"request: {each.request.url}")
        each.abort()

    try:
        context.route("**/*", route)
        page = context.new_page()
        page.on("console", lambda message: sins.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: sins.append(f"error: {error}"))
        page.on("dialog", lambda dialog: sins.append(f"dialog: {dialog.message}"))
        page.goto(address)
        yield page, sins
    finally:
        context.close()
