"""Debian's chromium for tests of pages: every request, dialog and error of a page is kept."""

import os
import shutil
from contextlib import contextmanager

from tests.needs import missing, need

FLAGS = [
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
    "--no-first-run",
]
SIZES = {"wide": (1280, 800), "narrow": (390, 844)}


@contextmanager
def chromium():
    """Start the browser, or skip the test with a reason."""
    api = need("playwright.sync_api")
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        missing("chromium is not installed (apt-get install chromium)")
    root = ["--no-sandbox"] if os.geteuid() == 0 else []
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=[*FLAGS, *root])
        yield browser
        browser.close()


@contextmanager
def opened(browser, path, size="wide", scheme="light"):
    """Open a file; at the end it must have made no request, shown no dialog, logged no error."""
    width, height = SIZES[size]
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=scheme, reduced_motion="reduce"
    )
    page = context.new_page()
    page.set_default_timeout(20_000)
    seen = []
    page.on("console", lambda m: seen.append(f"console {m.type}: {m.text}"))
    page.on("pageerror", lambda error: seen.append(f"error: {error}"))
    page.on("dialog", lambda d: (seen.append(f"dialog: {d.message}"), d.dismiss()))
    page.on(
        "request",
        lambda r: (
            None if r.url.startswith(("file:", "data:")) else seen.append(f"request: {r.url}")
        ),
    )
    page.goto(path.resolve().as_uri())
    yield page
    assert seen == []
    context.close()
