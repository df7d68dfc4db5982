"""The verdicts of the experiments follow from numbers by rules."""

import numpy as np
import pytest

from experiments import figure1, focused, groundtruth, models, priors, ptg, quality, theory, toy
from experiments.result import judged
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
    def cell(density, p):
        rate = dict(zip(quality.WAYS, [(50.0, 1.0), (density, 1.0), (70.0, 1.0)], strict=True))
        return {"rate": rate, "p": p, "paired": p, "few": dict.fromkeys(quality.WAYS, 10.0)}

    good, same, worse = cell(60.0, 0.01), cell(51.0, 0.4), cell(40.0, 0.99)
    assert quality.judge({"a": good, "b": good})[0] == "partly"
    verdict, why = quality.judge({"a": good, "b": same})
    assert verdict == "partly"
    assert "in 1 of 2 settings" in why
    assert quality.judge({"a": same, "b": worse})[0] == "not reproduced"


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


def test_claims_make_a_verdict():
    assert judged({"a": True, "b": True}) == ("reproduced", "Holds: a; b. ")
    assert judged({"a": True, "b": False}) == ("partly", "Holds: a. Does not hold: b. ")
    assert judged({"a": False}) == ("not reproduced", "Does not hold: a. ")


def test_models_are_compared_with_the_papers():
    scores = {"COMPAS, high score": [83.0, 82.0], "COMPAS, rearrest": [62.0], "German Credit": [72]}
    verdict, why = models.judge(scores)
    assert verdict == "reproduced"
    assert "nearer to that of “COMPAS, high score”" in why
    assert models.judge(scores | {"German Credit": [60.0]})[0] == "partly"
    swapped = scores | {"COMPAS, high score": [62.0], "COMPAS, rearrest": [83.0]}
    verdict, why = models.judge(swapped)
    assert verdict == "partly"
    assert "nearer to that of “COMPAS, rearrest”" in why


@pytest.mark.parametrize(
    ("few", "many", "inside", "verdict"),
    [(99, 36, 95, "reproduced"), (99, 60, 95, "partly"), (10, 60, 50, "not reproduced")],
)
def test_figure_1_is_judged_by_all_rows(few, many, inside, verdict):
    shares = {
        "the two largest overlap, 100": few,
        "the two largest overlap, 2,000": many,
        "2,000's values inside 100's intervals": inside,
    }
    found, why = figure1.judge(shares)
    assert found == verdict
    assert f"in {few} % of the rows, with 2,000 in {many} %" in why


def test_the_theorem_is_judged_with_and_without_an_intercept():
    def verdict(rate, limit, without):
        slope = {key: [(rate, 0.0), (rate, 0.0)] for key in ("none", "flat")}
        one = dict.fromkeys(("none", "flat"), (limit, 0.0))
        return theory.judge(slope, one, one, {"2": {"none": without, "flat": limit}})[0]

    assert verdict(-0.5, 1.0, 1.0) == "reproduced"
    assert verdict(-0.5, 1.0, 0.67) == "partly"
    assert verdict(-0.2, 2.0, 0.67) == "not reproduced"


def test_toy_surfaces_are_judged_by_size_and_coverage():
    def verdict(ratio, hold):
        data = {
            f"{s}, {n}": {
                "one": np.full(2, (1 + (s == "non-linear")) / n),
                "hold": (hold, 1.0),
                "ratio": (ratio, 0.1),
                "flat": 1.0,
            }
            for s in toy.SURFACES
            for n in toy.SIZES
        }
        return toy.judge(data)

    assert verdict(1.1, 95.0)[0] == "reproduced"
    assert verdict(2.0, 95.0)[0] == "partly"
    assert "Does not hold: its 95 % intervals" in verdict(1.1, 60.0)[1]


def test_the_known_function_is_judged_by_three_claims():
    assert groundtruth.judge(0.7, 0.7, (0.1, 0.2))[0] == "reproduced"
    assert groundtruth.judge(0.7, 0.2, (0.1, 0.2))[0] == "partly"
    assert groundtruth.judge(0.2, 0.2, (0.3, 0.2))[0] == "not reproduced"
