"""The verdicts of the experiments follow from numbers by rules."""

import numpy as np
import pytest

from experiments import focused, priors, ptg, quality
from experiments.table1_verdict import COLUMNS, METHODS, judge


def table(published: float, exact: float) -> tuple:
    """Table 1 with one data set: the published code's figures, and the paper's 95."""
    cells = {}
    for m in METHODS:
        cell = {title: (95.0, 1.0, 100) for title, *_ in COLUMNS}
        cell[COLUMNS[2][0]], cell[COLUMNS[3][0]] = (published, 1.0, 100), (exact, 1.0, 100)
        cells[f"Made up, {m}"] = cell
    pooled = {m: {t: c[:2] for t, c in cells[f"Made up, {m}"].items()} for m in METHODS}
    return judge(cells, pooled, pooled, dict.fromkeys(cells, "95.0"))


@pytest.mark.parametrize(
    ("published", "exact", "verdict"),
    [(94, 94, "reproduced"), (94, 60, "partly"), (60, 94, "not reproduced")],
)
def test_table_1_is_judged_by_the_published_column(published, exact, verdict):
    found, why, learned, notes = table(published, exact)
    assert found == verdict
    assert f"{exact}.0 ± 1.0 %" in why
    assert f"{exact}.0 ± 1.0 %" in learned
    assert any("Farther than 5 points" in note for note in notes) == (published == 60)


def test_perturbations_to_go_is_right_within_a_tenth():
    def verdict(*ratios):
        cells = {f"cell {i}": r for i, r in enumerate(ratios)}
        return ptg.judge({"paper": {}, "published": cells, "credex": {"a": 1.0}})[0]

    assert verdict(0.95, 1.09) == "reproduced"
    assert verdict(0.95, 1.7) == "partly"
    assert verdict(0.5, 1.7) == "not reproduced"


def test_the_prior_grid_is_compared_cell_by_cell():
    paper = np.dstack([priors.PAPER, np.ones((5, 5))])

    def verdict(grid):
        return priors.report({"paper": paper, "published": grid}, 1, 1, 1).verdict

    assert verdict(paper) == "reproduced"
    corner = paper.copy()
    corner[-1, 0, 0] = 90.0
    assert verdict(corner) == "partly"
    assert verdict(paper - [20, 0]) == "not reproduced"


def test_the_user_study_needs_a_significant_difference():
    def verdict(density, p):
        ways = dict(
            zip(quality.WAYS, [(50.0, 1.0), (density, 1.0), (70.0, 1.0), (50.0, 1.0)], strict=True)
        )
        return quality.judge(ways, p, p, dict.fromkeys(quality.WAYS, 10.0))

    assert verdict(60.0, 0.01)[0] == "partly"
    assert verdict(51.0, 0.4)[0] == "not reproduced"
    assert "is not shown to be the better choice" in verdict(51.0, 0.4)[1]


def test_queries_to_a_distance_are_interpolated():
    budgets = [100, 200, 450, 900]

    def curve(*l1):
        return {"budgets": budgets, "l1": [(v, 0.0) for v in l1]}

    cell = {"random": curve(40, 30, 20, 10), "paper's rule": curve(40, 20, 10, 5)}
    cell |= {"published, random": cell["random"], "published rule": curve(90, 80, 70, 60)}
    assert focused.needed(cell, "paper's rule") == pytest.approx(200)
    assert not focused.reaches(cell, "published rule")
    assert focused.needed_words(cell, "published rule") == "not reached"
    assert focused.judge({"cell": cell})[0] == "not reproduced"
    good = cell | {"published rule": cell["paper's rule"]}
    assert focused.judge({"cell": good})[0] == "reproduced"
