"""Reports in a browser: both sizes, light and dark, keyboard, hostile words."""

import re

import numpy as np
import pytest

import credex as cx
from credex import formatting
from credex.report.data import LEVELS
from credex.verdict import judge
from tests.browser import SIZES, chromium, opened
from tests.test_report import hostile_batch, hostile_explanation, table_model

MODEL, X = table_model(k=2, n=40, d=6)
EXPLAINER = cx.BayesSHAP(MODEL, X)
E = EXPLAINER.explain(X[0], queries=60)


@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """Reports by name; each is written once."""
    folder = tmp_path_factory.mktemp("reports")
    text = cx.BayesSHAP(lambda t: [len(s) + 9.0 * ("free" in s) for s in t], cx.Text())
    image = cx.BayesSHAP(lambda z: np.asarray(z).mean((1, 2, 3)), cx.Image(cx.Grid(2, 2)))
    made = {
        "one": lambda: E,
        "batch": lambda: EXPLAINER.explain_many(X[:14], queries=40, progress=False),
        "text": lambda: text.explain("a free phone, and <b>more</b>\nof\u2028it", queries=30),
        "image": lambda: image.explain(np.random.default_rng(0).random((20, 20, 3))),
        "hostile": hostile_explanation,
        "hostile batch": hostile_batch,
        "empty": lambda: cx.Explanations((), 0, 0, 0.0, "none"),
    }

    def report(name):
        path = folder / f"{name} <1>.html"
        return path if path.exists() else made[name]().report(path)

    return report


def cells(page, kind):
    return page.locator(f".intervals tbody .{kind}").all_inner_texts()


def luminance(page):
    colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
    return sum(map(int, re.findall(r"\d+", colour)[:3])) / 3


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    "name", ["one", "batch", "text", "image", "hostile", "hostile batch", "empty"]
)
def test_pages_fit_and_follow_light_and_dark(browser, reports, name, size, scheme):
    with opened(browser, reports(name), size, scheme) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= SIZES[size][0]
        outside = page.evaluate(
            """() => [...document.querySelectorAll("main *")].filter((node) => {
              const box = node.getBoundingClientRect();
              return box.width > 2 && box.right > document.documentElement.clientWidth + 1;
            }).length"""
        )
        assert outside == 0
        assert (luminance(page) > 128) == (scheme == "light")
        toggle = page.get_by_role("button", name="Dark mode" if scheme == "light" else "Light mode")
        toggle.focus()
        page.keyboard.press("Enter")
        assert (luminance(page) > 128) == (scheme == "dark")
        assert page.get_by_role("heading", name="For the auditor").is_visible()


def test_the_level_moves_intervals_signs_ranks_and_verdict_as_python_has_them(browser, reports):
    with opened(browser, reports("one")) as page:
        slider = page.get_by_role("slider", name="Credible level")
        slider.focus()
        page.keyboard.press("Home")
        for level in LEVELS:
            assert slider.get_attribute("aria-valuetext") == formatting.percent(level)
            features = formatting.largest(E, 0)[0]
            view = formatting.View.of(E, 0, level)
            places = len(cells(page, "estimate")[0].partition(".")[2])
            expected = [
                f"{formatting.number(view.lower[i], places)} … "
                f"{formatting.number(view.upper[i], places)}"
                for i in features
            ]
            assert cells(page, "between") == expected
            signs = page.locator(".intervals tbody tr")
            found = [row.get_attribute("data-sign") == "open" for row in signs.all()]
            assert found == view.unclear[features].tolist()
            hollow = page.locator(".mark g").all()
            assert ["open" in g.get_attribute("class") for g in hollow] == found
            low, high = E.rank_range(output=0, level=level)
            ranks = [f"{low[i]}–{high[i]}" if low[i] < high[i] else str(low[i]) for i in features]
            assert cells(page, "rank") == ranks
            said = page.get_by_role("status").first.locator(".words").all_text_contents()
            assert said == [s.removeprefix("Caution: ") for s in judge(E, 0, level).lines]
            page.keyboard.press("ArrowRight")


def test_marks_stand_where_the_axis_says(browser, reports):
    with opened(browser, reports("one")) as page:
        drawn = page.evaluate(
            """() => {
              const at = (line) => parseFloat(line.getAttribute("x1"));
              const ticks = [...document.querySelectorAll(".axis text")].map((t) =>
                [parseFloat(t.getAttribute("x")), parseFloat(t.textContent.replace("−", "-"))]);
              const means = [...document.querySelectorAll(".mark .mean")].map(at);
              return { ticks, means };
            }"""
        )
        x, value = np.array(drawn["ticks"]).T
        assert len(x) >= 3
        features = formatting.largest(E, 0)[0]
        slope, start = np.polyfit(value, x, 1)
        np.testing.assert_allclose(drawn["means"], start + slope * E.mean[features, 0], atol=0.1)


def test_outputs_are_chosen_with_the_keyboard(browser, reports):
    with opened(browser, reports("one")) as page:
        before = cells(page, "estimate")
        page.get_by_role("combobox", name="Output").focus()
        page.keyboard.press("ArrowDown")
        assert cells(page, "estimate") != before
        headline = formatting.headline(E, 1)
        assert page.locator(".headline").inner_text().lower() == headline.lower()


def test_sorting_searching_and_hiding(browser, reports):
    with opened(browser, reports("one")) as page:
        sort = page.get_by_role("combobox", name="Sort by")
        sort.select_option(label="Name")
        assert cells(page, "name") == sorted(E.names)
        assert page.locator("thead th[aria-sort=ascending]").inner_text() == "Feature"
        sort.select_option(label="P(>0)")
        expected = np.argsort(-E.prob_positive[:, 0], kind="stable")
        assert cells(page, "name") == [E.names[i] for i in expected]
        sort.select_option(label="Size")
        search = page.get_by_role("searchbox", name="Search")
        search.fill("X3")
        assert cells(page, "name") == ["x3"]
        assert "1 of 6 features, 5 hidden" in page.locator(".count").inner_text()
        search.fill("")
        show = page.get_by_role("combobox", name="Show")
        unclear = formatting.View.of(E, 0).unclear
        show.select_option(label="Open sign")
        assert set(cells(page, "name")) == {n for n, u in zip(E.names, unclear, strict=True) if u}
        show.select_option(label="Certain sign")
        assert len(cells(page, "name")) == (~unclear).sum()
        show.select_option(label="All")
        page.get_by_label("Hide negligible").focus()
        page.keyboard.press("Space")
        size = np.abs(E.mean[:, 0])
        assert len(cells(page, "name")) == (size >= 0.01 * size.max()).sum()


@pytest.mark.parametrize("size", SIZES)
def test_rows_of_a_batch_are_searched_and_picked_with_the_keyboard(browser, reports, size):
    with opened(browser, reports("batch"), size) as page:
        heading = page.locator("h3.label")
        assert heading.inner_text() == "Row 0"
        page.get_by_role("listbox", name="Rows").focus()
        before = cells(page, "estimate")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowDown")
        assert heading.inner_text() == "Row 2"
        assert cells(page, "estimate") != before
        page.keyboard.press("End")
        assert heading.inner_text() == "Row 13"
        rows = page.get_by_role("listbox", name="Rows")
        chosen = rows.get_by_role("option", selected=True)
        assert chosen.count() == 1
        box, around = chosen.bounding_box(), page.locator(".list").bounding_box()
        assert around["y"] <= box["y"] < around["y"] + around["height"]
        page.get_by_label("Search rows").fill("row 1")
        options = rows.get_by_role("option")
        assert options.count() == 5
        page.keyboard.press("ArrowUp")
        assert heading.inner_text() == "Row 12"
        page.get_by_label("Search rows").fill("nothing like it")
        assert options.count() == 0
        page.get_by_label("Search rows").fill("")
        options.nth(3).click()
        assert heading.inner_text() == "Row 3"


def test_means_over_rows_follow_level_and_output(browser, reports):
    with opened(browser, reports("batch")) as page:
        means = page.locator("section").first
        words = means.locator(".between").all_inner_texts
        seen = {tuple(words())}
        page.get_by_role("slider", name="Credible level").focus()
        page.keyboard.press("Home")
        seen.add(tuple(words()))
        page.get_by_role("combobox", name="Output").focus()
        page.keyboard.press("ArrowDown")
        seen.add(tuple(words()))
        assert len(seen) == 3
        page.get_by_role("slider", name="Credible level").focus()
        page.keyboard.press("End")
        assert "At 99 %" in means.locator(".note").inner_text()  # not worked out for 99.9 %


@pytest.mark.parametrize("name", ["hostile", "hostile batch", "text"])
def test_hostile_words_are_shown_as_words(browser, reports, name):
    with opened(browser, reports(name)) as page:
        assert page.locator("script").count() == 2
        assert page.locator("img, iframe, b, object, embed, [onerror], [onload]").count() == 0
        shown = page.locator("main").inner_text()
        assert ("<b>more</b>" if name == "text" else "<script>alert(1)</script>") in shown
        if name != "text":
            page.get_by_role("searchbox", name="Search", exact=True).fill("<img")
            assert len(set(cells(page, "name"))) >= 1
        assert page.evaluate("document.title").startswith(("Why", "6 predictions"))


def test_a_text_shows_which_words_are_certain_at_the_level(browser, reports):
    with opened(browser, reports("text")) as page:

        def sure():
            return page.locator(".text p:first-child .sure").count()

        page.get_by_role("slider", name="Credible level").focus()
        page.keyboard.press("Home")
        low = sure()
        page.keyboard.press("End")
        assert low >= 1
        assert sure() < low
        assert page.locator(".text .up", has_text="free").count() == 1


def test_screen_readers_find_tables_labels_and_the_verdict(browser, reports):
    with opened(
        browser, reports("batch"), "narrow"
    ) as page:  # rows are no table cells in CSS there
        table = page.get_by_role("table", name="Importances of 6 features with 95 % intervals")
        assert table.get_by_role("columnheader").count() >= 6
        assert table.get_by_role("rowheader").count() == 6
        assert page.locator("[role=status][aria-live=polite]").count() == 2
        unnamed = page.evaluate(
            """() => [...document.querySelectorAll("input, select")]
              .filter((f) => !f.labels.length || !f.labels[0].textContent.trim()).length"""
        )
        assert unnamed == 0
        assert page.locator("h1").count() == 1
        assert page.evaluate("document.documentElement.lang") == "en"


def test_components_can_be_shown_new_data_and_keep_what_the_reader_chose(browser, reports):
    with opened(browser, reports("one")) as page:
        kept = page.evaluate(
            """() => {
              const data = JSON.parse(document.getElementById("data").textContent);
              const host = document.createElement("div");
              document.body.replaceChildren(host);
              const view = credex.explanation(host);
              view.show(data);
              const slider = host.querySelector("input[type=range]");
              slider.value = 0;
              slider.dispatchEvent(new Event("input"));
              const search = host.querySelector("input[type=search]");
              search.value = "x1";
              search.dispatchEvent(new Event("input"));
              const newer = structuredClone(data);
              newer.outputs[0].mean = newer.outputs[0].mean.map((m) => m + 1);
              const before = host.querySelector("tbody .estimate").textContent;
              view.show(newer);
              const after = host.querySelector("tbody .estimate").textContent;
              return [view.level, host.querySelectorAll("tbody tr").length, before, after];
            }"""
        )
        assert kept[:2] == [0, 1]
        assert kept[2] != kept[3]


def test_print_shows_the_table_and_no_controls(browser, reports):
    with opened(browser, reports("one"), "narrow", "dark") as page:
        page.emulate_media(media="print")
        assert not page.locator(".tools").is_visible()
        assert not page.locator("#theme").is_visible()
        page.set_viewport_size({"width": 680, "height": 960})  # A4 with margins
        assert page.evaluate("document.documentElement.scrollWidth") <= 680
        assert page.locator("thead").is_visible()
        ink = page.evaluate("getComputedStyle(document.body).color")
        assert max(map(int, re.findall(r"\d+", ink)[:3])) < 100  # dark letters on paper
