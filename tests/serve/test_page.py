"""The live page in Debian's chromium: wide and narrow, light and dark, nothing from elsewhere."""

import json
import os
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import credex as cx
from tests.browser import SIZES, chromium
from tests.needs import need
from tests.serve.test_rows import HOSTILE

need("starlette")
need("uvicorn")

from tests.serve.live import WAIT, Gate, live, people, risk  # noqa: E402

SHOTS = os.environ.get("CREDEX_SHOTS")  # a folder, to look at what the tests see


@pytest.fixture(scope="module")
def browser():
    with chromium() as started:
        yield started


@contextmanager
def opened(browser, url, size="wide", scheme="light", *, allowed=()):
    """Open a page; it must log nothing but ``allowed``, open no dialog, ask no other server."""
    width, height = SIZES[size]
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=scheme, reduced_motion="reduce"
    )
    page = context.new_page()
    page.set_default_timeout(1_000 * WAIT)
    seen, own = [], url.partition("?")[0]
    page.on("console", lambda m: None if m.text in allowed else seen.append(f"logged: {m.text}"))
    page.on("pageerror", lambda error: seen.append(f"error: {error}"))
    page.on("dialog", lambda d: (seen.append(f"dialog: {d.message}"), d.dismiss()))
    page.on("request", lambda r: None if is_own(r.url, own) else seen.append(f"asked {r.url}"))
    page.goto(url)
    page.locator("#go").wait_for()
    yield page
    assert seen == []
    context.close()


def is_own(address, own):
    return address.startswith((own, "data:"))


def shot(page, name):
    if SHOTS:
        page.screenshot(path=Path(SHOTS) / f"{name}.png", full_page=True)


def status(page, wanted):
    page.locator(f"#progress[data-status={wanted}]").wait_for()


def widest(page):
    """Return the widest interval that the table shows."""
    texts = page.locator("#explanation td.between").all_inner_texts()
    ends = [text.replace("−", "-").split(" … ") for text in texts if "…" in text]
    return max(float(b) - float(a) for a, b in ends)


def fits(page):
    """Whether nothing sticks out of the window."""
    return page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_pick_run_watch_edit_compare_download(browser, size, scheme, tmp_path):
    X, gate = people(120), Gate()
    with (
        live(cx.BayesSHAP(gate, X), X) as client,
        opened(browser, client.url, size, scheme) as page,
    ):
        rows = page.get_by_role("option")
        rows.nth(49).wait_for()
        assert page.locator(".turn p").inner_text() == "1–50 of 120"
        page.get_by_label("Later rows").click()
        page.get_by_text("51–100 of 120").wait_for()
        page.get_by_label("Search rows").fill("oslo")
        page.get_by_text("found, of 120").wait_for()
        rows.nth(1).click()
        chosen = [i for i in range(120) if X["city"].iloc[i] == "Oslo"][1]
        page.get_by_role("heading", name=f"Row {chosen}").wait_for()
        assert page.get_by_label("age", exact=True).input_value() == str(X["age"].iloc[chosen])
        assert gate.calls == 0
        assert fits(page)
        shot(page, f"{size}-{scheme}-1-picked")

        page.get_by_role("button", name="Explain").click()
        status(page, "running")
        page.locator("#explanation td.between").first.wait_for()
        early = widest(page)
        assert page.get_by_role("button", name="Stop").is_visible()
        shot(page, f"{size}-{scheme}-2-running")
        gate.through.set()
        status(page, "done")
        assert widest(page) < 0.7 * early
        assert page.get_by_text("Certain enough after").is_visible()
        assert page.get_by_text("Widest interval").is_visible()
        assert not page.get_by_role("button", name="Stop").is_visible()
        assert fits(page)
        shot(page, f"{size}-{scheme}-3-done")

        with page.expect_download() as coming:
            page.get_by_role("link", name="JSON").click()
        coming.value.save_as(tmp_path / "e.json")
        e = cx.Explanation.from_json(tmp_path / "e.json")
        expected = cx.BayesSHAP(risk, X).explain(X.iloc[chosen])
        assert np.array_equal(e.mean, expected.mean)
        with page.expect_download() as coming:
            page.get_by_role("link", name="Report").click()
        assert coming.value.suggested_filename == "explanation.html"
        coming.value.save_as(tmp_path / "e.html")
        assert "<!doctype html>" in (tmp_path / "e.html").read_text(encoding="utf-8")

        page.get_by_label("age", exact=True).fill("25")
        page.get_by_label("city", exact=True).select_option("Rome")
        page.get_by_text("2 values changed").wait_for()
        page.get_by_text(f"was {X['age'].iloc[chosen]}").wait_for()
        page.get_by_role("button", name="Explain edited copy").click()
        page.get_by_role("tab", name="Edited copy", selected=True).wait_for()
        status(page, "done")
        assert "25" in page.locator("#explanation td.value").all_inner_texts()
        shot(page, f"{size}-{scheme}-4-edited")
        page.get_by_role("tab", name="Difference").click()
        page.get_by_text("The prediction changes by").wait_for()
        assert page.locator("#difference tbody tr").count() == 6
        assert fits(page)
        shot(page, f"{size}-{scheme}-5-difference")
        page.get_by_role("button", name="Undo all changes").click()
        page.get_by_role("tab", name="Original", selected=True).wait_for()


def test_stop_continue_and_halve(browser):
    X, gate = people(), Gate()
    with (
        live(cx.BayesSHAP(gate, X, batch_rows=16), X) as client,
        opened(browser, client.url) as page,
    ):
        page.get_by_role("button", name="Explain").click()
        assert gate.entered.wait(WAIT)
        page.locator("#explanation td.between").first.wait_for()
        page.get_by_role("button", name="Stop").click()
        job = next(iter(client.jobs._jobs.values()))
        assert job._cancelled.wait(WAIT)
        calls = gate.calls
        gate.through.set()
        status(page, "stopped")
        assert gate.calls == calls
        page.get_by_text("stopped in the page").wait_for()
        page.get_by_role("button", name="Continue").click()
        status(page, "done")
        first = widest(page)
        assert page.locator(".amount input").input_value() == "20"
        page.get_by_role("button", name="Halve the intervals").click()
        page.wait_for_function("document.querySelector('.amount input').value === '10'")
        page.locator("#go:enabled").wait_for()
        status(page, "done")
        assert widest(page) < 0.7 * first
        assert page.get_by_text(f"Certain enough after {gate.rows:,} model rows").is_visible()
        assert len(client.jobs._jobs) == 3  # which asked nothing twice


def test_goals_of_the_page(browser):
    X = people()
    with live(cx.BayesSHAP(risk, X), X, width=0.2) as client, opened(browser, client.url) as page:
        assert page.get_by_label("Stop when").input_value() == "width"
        assert page.locator(".amount input").input_value() == "0.2"
        page.get_by_label("Stop when").select_option("queries")
        page.locator(".amount input").fill("101")
        page.get_by_label("Level", exact=True).select_option("80 %")
        page.get_by_role("button", name="Explain").click()
        status(page, "done")
        job = next(iter(client.jobs._jobs.values()))
        e = job.progress.explanation
    assert (e.level, e.stop_reason) == (0.8, "queries")
    assert e.n_queries in (100, 101)


def test_bad_values_are_explained_beside_their_input(browser):
    X = people()
    refused = "Failed to load resource: the server responded with a status of 422 "
    refused += "(Unprocessable Entity)"
    with (
        live(cx.BayesSHAP(risk, X), X) as client,
        opened(browser, client.url, allowed=[refused]) as page,
    ):
        age = page.get_by_label("age", exact=True)
        age.fill("forty")
        page.get_by_role("button", name="Explain edited copy").click()
        page.get_by_role("alert").get_by_text("age: 'forty' is no number").wait_for()
        assert age.get_attribute("aria-invalid") == "true"
        shot(page, "bad-value")
        age.fill("40")
        page.get_by_role("alert").get_by_text("forty").wait_for(state="hidden")
        assert age.get_attribute("aria-invalid") is None
        page.get_by_label("At", exact=True).fill("much")
        page.get_by_role("button", name="Explain edited copy").click()
        page.get_by_role("alert").get_by_text("must be a positive number; got 'much'").wait_for()
        assert not client.jobs._jobs


@pytest.mark.parametrize("size", SIZES)
def test_hostile_names_and_values_do_nothing(browser, size):
    names = [*HOSTILE[:-1], "plain"]
    cells = {name: [HOSTILE[j], "b", "c"] * 8 for j, name in enumerate(names)}
    X = pd.DataFrame(cells, index=[HOSTILE[i % 7] + str(i) for i in range(24)])

    def model(frame):
        return (frame == "b").to_numpy() @ np.arange(1.0, len(names) + 1)

    model.__name__ = HOSTILE[1]
    with live(cx.BayesSHAP(model, X), X) as client, opened(browser, client.url, size) as page:
        page.get_by_role("button", name="Explain").click()
        status(page, "done")
        page.locator("#form select").last.select_option("c")
        page.get_by_role("button", name="Explain edited copy").click()
        page.get_by_role("tab", name="Difference").click()
        page.locator("#difference tbody tr").first.wait_for()
        assert fits(page)
        shot(page, f"hostile-{size}")
        page.get_by_role("tab", name="Original").click()
        assert page.locator("#explanation").get_by_text(HOSTILE[0]).first.is_visible()
        assert page.evaluate("document.scripts.length") == 2
        assert page.locator("img").count() == 0
        assert page.locator("h1").inner_text() == f"BayesSHAP of {HOSTILE[1]}"
        assert fits(page)


def test_errors_of_the_model_are_shown(browser):
    X = people()

    def broken(frame):
        raise ValueError(HOSTILE[0])

    with live(cx.BayesLIME(broken, X), X) as client, opened(browser, client.url) as page:
        page.get_by_role("button", name="Explain").click()
        status(page, "failed")
        said = page.locator("#error").inner_text()
        shot(page, "model-error")
        assert HOSTILE[0] in said
        assert "Traceback" not in said
        assert page.get_by_role("button", name="Explain").is_visible()


def test_keys_are_enough(browser):
    X = people()
    with live(cx.BayesSHAP(risk, X), X) as client, opened(browser, client.url) as page:
        page.get_by_role("listbox").focus()
        page.keyboard.press("ArrowDown")
        page.get_by_role("heading", name="Row 1", exact=True).wait_for()
        page.keyboard.press("End")
        page.get_by_role("heading", name="Row 49", exact=True).wait_for()
        page.get_by_label("age", exact=True).press("Control+a")
        page.keyboard.type("33")
        page.keyboard.press("Enter")
        page.get_by_role("tab", name="Edited copy", selected=True).focus()
        status(page, "done")
        page.keyboard.press("ArrowRight")
        page.get_by_role("tab", name="Difference", selected=True).wait_for()
        page.get_by_role("button", name="Explain the original row").click()
        page.get_by_text("The prediction changes by").wait_for()


def test_the_token_leaves_the_address(browser):
    X = people()
    with live(cx.BayesSHAP(risk, X), X, token="auto") as client:  # noqa: S106
        with opened(browser, f"{client.url}?{client.query}") as page:
            assert page.url == client.url
            (cookie,) = page.context.cookies()
            assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
            assert page.evaluate("document.cookie") == ""
            page.reload()
            page.get_by_role("button", name="Explain").click()
            status(page, "done")
        stranger = browser.new_context().new_page()
        assert stranger.goto(client.url).status == 401
        assert "address that credex printed" in stranger.inner_text("body")
        stranger.context.close()


def test_texts(browser):
    texts = ["a good film with a bad end", "plain <b>bad</b> film"]

    def sentiment(batch):
        return np.array([t.count("good") - t.count("bad") + 0.0 for t in batch])

    with (
        live(cx.BayesSHAP(sentiment, cx.Text()), texts) as client,
        opened(browser, client.url) as page,
    ):
        page.get_by_role("button", name="Explain").click()
        status(page, "done")
        assert page.locator("#explanation .text .up").first.inner_text() == "good"
        page.get_by_label("text", exact=True).fill("a good good film")
        page.get_by_role("button", name="Explain edited copy").click()
        page.get_by_role("tab", name="Edited copy", selected=True).wait_for()
        page.locator("#explanation .text").get_by_text("good").nth(1).wait_for()
        shot(page, "text")


def test_two_windows_see_the_same(browser):
    X, gate = people(), Gate()
    with (
        live(cx.BayesSHAP(gate, X), X) as client,
        opened(browser, client.url) as one,
        opened(browser, client.url) as two,
    ):
        for page in (one, two):
            page.get_by_role("button", name="Explain").click()
            status(page, "running")
        gate.through.set()
        for page in (one, two):
            status(page, "done")
        tables = [page.locator("#explanation tbody").inner_text() for page in (one, two)]
        assert tables[0] == tables[1]
        assert len(client.jobs._jobs) == 1
        info = json.loads(one.evaluate("fetch('/api/info').then((a) => a.text())"))
    assert info["rows"] == len(X)
