"""Perturbations-to-go: the width asked for and the width found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from tqdm import tqdm

import credex as cx
from experiments.canvas import COLOURS, GREY, plain, tidy
from experiments.cases import Case, tables
from experiments.image_cases import PHOTOGRAPHS, digit, photograph
from experiments.published import kept_names, published_explainer
from experiments.result import Result, measured
from experiments.spread import mean_se

SEEDS = 200
"""The paper's S: perturbations spent on the estimate."""

SHARES = (0.9, 0.7, 0.5, 0.4, 0.3, 0.2)
"""Six widths, as shares of the median widest interval after S perturbations."""

MOST = {"BayesLIME": 20_000, "BayesSHAP": 5_000}
"""Longest run of credex's forecast; a BayesSHAP query costs 20 model rows."""

MOST_FORMULA = 20_000
"""Longest run of the paper's formula, both methods."""

FORMULA_INSTANCES = {"BayesLIME": 40, "BayesSHAP": 20}
"""Instances of the formula: runs of BayesSHAP are long."""

WAYS = (
    ("paper", "half-width", 'the formula, `recipe="paper"`'),
    ("published", "half-width", 'the formula, `recipe="published"`'),
    ("credex", "width", "credex's forecast"),
)
"""Who, what is asked for, and a name for the table."""

MOST_PHOTOGRAPH = 2_000
"""The same for photographs: a query takes tens of milliseconds."""


def cases(*, quick: bool) -> list[Case]:
    """Return the cases of this experiment."""
    found = [case for case in tables(quick=quick) if case.name != "COMPAS, rearrest"]
    return found if quick else [*found, digit(4)]


def run(*, quick: bool) -> Result:
    """Forecast, run the forecast number of perturbations, and look at the width."""
    counts = {"table": 3, "digit": 1} if quick else {"table": 40, "digit": 40}
    data = {}
    for case in cases(quick=quick):
        instances = counts[case.kind]
        for method in ("BayesLIME", "BayesSHAP"):
            cell = {}
            for who, *_ in WAYS:
                if who == "credex" and method == "BayesSHAP" and case.name == "COMPAS":
                    continue  # S is nearly all coalitions there: the answer is exact soon
                n = min(instances, FORMULA_INSTANCES[method]) if who != "credex" else instances
                cell[who] = follow(case, method, who, n, quick=quick)
                compare(cell[who], longest(case, method, who))
            data[f"{case.name}, {method}"] = cell
    if not quick:
        for method in ("BayesLIME", "BayesSHAP"):
            data[f"Photographs, {method}"] = photographs(method)
    return report(data, counts)


def photographs(method: str) -> dict[str, Any]:
    """Follow four photographs, each to widths of its own."""
    cell = {}
    for who, *_ in WAYS:
        found = [follow(photograph(name), method, who, 1, quick=False) for name in PHOTOGRAPHS]
        middle = np.median([c["desired"] for c in found], axis=0)
        scale = [middle / np.array(c["desired"]) for c in found]  # asked for in units of their own
        cell[who] = {
            "desired": middle.tolist(),
            "n": np.column_stack([c["n"][:, 0] for c in found]),
            "observed": np.column_stack(
                [c["observed"][:, 0] * s for c, s in zip(found, scale, strict=True)]
            ),
        }
        compare(cell[who], MOST_PHOTOGRAPH)
    return cell


def longest(case: Case, method: str, who: str) -> int:
    """Longest run of a case."""
    if case.kind == "photograph":
        return MOST_PHOTOGRAPH
    return MOST[method] if who == "credex" else MOST_FORMULA


def compare(c: dict[str, Any], most: int) -> None:
    """Add found ÷ asked for, over all widths and by width, and how many runs were cut off."""
    ratio = np.array(c["observed"]) / np.array(c["desired"])[:, None]
    asked = np.isfinite(ratio)
    some = asked.any(axis=0)
    c["ratio"] = (np.nan, np.nan)
    if some.any():
        c["ratio"] = mean_se(np.nanmean(ratio[:, some], axis=0))
    c["by width"] = [
        mean_se(r) if f.any() else (np.nan, np.nan) for r, f in zip(ratio, asked, strict=True)
    ]
    c["capped"] = int(np.sum(np.array(c["n"]) >= most))


def report(data: dict[str, Any], counts: dict[str, int]) -> Result:
    """Put the ratios into a table and judge them."""
    rows = []
    for title, cell in data.items():
        for who, words, label in WAYS:
            if who not in cell:
                continue
            c = cell[who]
            n = np.array(c["n"])
            rows.append(
                (
                    f"{title}, {label}",
                    "on the diagonal",
                    f"{words} {c['desired'][-1]:.3g} to {c['desired'][0]:.3g}",
                    measured(*c["ratio"], digits=3),
                    f"{n.min():,.0f}–{n.max():,.0f}",
                )
            )
    found = {who: {t: c[who]["ratio"][0] for t, c in data.items() if who in c} for who, *_ in WAYS}
    found = {who: {t: r for t, r in f.items() if np.isfinite(r)} for who, f in found.items()}
    verdict, why = judge(found)
    part = {t: c["published"].get("prior share") for t, c in data.items()}
    why += (
        f" At S = {SEEDS} the prior's part of s², which falls as 1/N and which the formula takes "
        "as "
        "constant, is "
        + ", ".join(f"{100 * v:.0f} % ({t})" for t, v in part.items() if v is not None)
        + " with the published regression."
    )
    capped = {
        (t, who): c[who]["capped"]
        for t, c in data.items()
        for who in ("paper", "published")
        if c[who]["capped"]
    }
    off = {t: r for t, r in found["credex"].items() if abs(r - 1) > TENTH}
    return Result(
        name="ptg",
        title="Perturbations-to-go: the width asked for and the width found",
        claim=(
            "From S = 200 perturbations the formula G tells how many more a width needs: desired "
            "and observed widths lie on the diagonal; 200 to 20,000 perturbations are needed."
        ),
        ran=(
            f"{counts['table']} test rows of each table, {counts['digit']} digits, four "
            f"photographs, one seed each, S = {SEEDS}, six widths. credex: `forecast(width=)`, "
            "then a run of as many queries as it says, and the widest of all intervals (upper − "
            "lower) over the width asked for. The formula: `perturbations_to_go` with either "
            "recipe's regression, and the mean half-width found over the half-width asked for, "
            "which is what the paper's figure shows "
            f"({FORMULA_INSTANCES['BayesSHAP']} instances for BayesSHAP). Exact answers and "
            "widths that the S perturbations already had are left out; no run of the formula is "
            f"longer than {MOST_FORMULA:,}, of the forecast {MOST['BayesLIME']:,} (BayesSHAP "
            f"{MOST['BayesSHAP']:,}), of photographs {MOST_PHOTOGRAPH:,}."
        ),
        head=("data, method", "paper", "asked for", "found ÷ asked for", "perturbations needed"),
        rows=tuple(rows),
        verdict=verdict,
        why=why,
        learned=(
            "Perturbations-to-go: found ÷ asked for is "
            + ", ".join(f"{r:.2f} ({t})" for t, r in found["published"].items())
            + " with the published regression and W a half-width."
        ),
        notes=(
            *(
                f"{t}: credex's forecast is off by {abs(r - 1):.0%}, not the tenth it aims at."
                for t, r in off.items()
            ),
            *(
                f'{t}: the formula with `recipe="{who}"` asked for as many as a run may have or '
                f"more in {n} runs, which were left out."
                for (t, who), n in capped.items()
            ),
        ),
        data=data,
    )


TENTH = 0.1
"""A forecast is right if what is found is within a tenth of what was asked for."""


def judge(found: dict[str, dict[str, float]]) -> tuple[Any, str]:
    """Reproduced: the published formula is right (see `TENTH`) everywhere; partly: somewhere."""
    words = {}
    for who, ratios in found.items():
        good = [t for t, r in ratios.items() if abs(r - 1) <= TENTH]
        far = ", ".join(f"{r:.2f} ({t})" for t, r in ratios.items() if t not in good)
        words[who] = f"right within a tenth in {len(good)} of {len(ratios)} cells"
        words[who] += f"; else {far}" if far else ""
    theirs = found["published"]
    right = [abs(r - 1) <= TENTH for r in theirs.values()]
    verdict = "reproduced" if all(right) else "partly" if any(right) else "not reproduced"
    return verdict, (
        f"Found ÷ asked for. The formula with the published regression is {words['published']}. "
        f"With the text's regression it is {words['paper']}. credex's forecast is "
        f"{words['credex']}. W is a half-width: called a width, as in the text, it is off by two. "
        "The formula takes features as fair coins and π as constant."
    )


def follow(case: Case, method: str, who: str, instances: int, *, quick: bool) -> dict[str, Any]:
    """Forecast from S perturbations, run as many as it says, and look at the width."""
    size = widest if who == "credex" else half
    start = [first(case, method, who, i) for i in range(instances)]
    middle = float(np.median([size(e) for e in start]))
    desired = [middle * share for share in (SHARES[::2] if quick else SHARES)]
    n, observed = (np.full((len(desired), instances), np.nan) for _ in range(2))
    most = longest(case, method, who)
    bar = tqdm(start, disable=None, leave=False, desc=f"ptg, {case.name}, {method}, {who}")
    for i, e in enumerate(bar):
        for k, width in enumerate(desired):
            total, go_on = plan(case, method, who, e, i=i, width=width)
            n[k, i] = min(np.ceil(total), most)
            if SEEDS < n[k, i] < most:
                later = go_on(int(n[k, i]))
                # an exact answer has no width
                observed[k, i] = np.nan if later.exact else size(later)
    out = {"desired": desired, "n": n, "observed": observed}
    if who != "credex":
        out["prior share"] = float(np.mean([prior_share(regression(e, who)) for e in start]))
    return out


def first(case: Case, method: str, who: str, i: int) -> Any:
    """Run S perturbations."""
    if who == "published":
        explainer = published_explainer(case, method, i)
    else:
        explainer = case.explainer(method, recipe=who)
    return explainer.explain(case.row(i), queries=SEEDS, seed=i)


def plan(
    case: Case, method: str, who: str, e: Any, *, i: int, width: float
) -> tuple[float, Callable[[int], Any]]:
    """Return the perturbations in all that a width takes, and a run of so many."""
    if who == "credex":
        explainer: Any = case.explainer(method)
        forecast = explainer.forecast(case.row(i), width=width, seed_queries=SEEDS, seed=i)
        return forecast.total, lambda n: explainer.explain(
            case.row(i), queries=n, start=forecast, seed=i
        )
    explainer = case.explainer(method, recipe="paper")
    if who == "published":
        kept = method == "BayesSHAP"
        recipe: Any = cx.Published(features=kept_names(e)) if kept else "published"
        explainer = published_explainer(case, method, i, recipe=recipe)
    total = SEEDS + max(cx.perturbations_to_go(regression(e, who), width), 0)
    return total, lambda n: explainer.explain(case.row(i), queries=n, seed=i)


def regression(e: Any, who: str) -> cx.LinearPosterior:
    """The regression of a run with either recipe of the paper."""
    rows = e.history.rows
    Z, y, w = rows.design(), rows.y()[:, 0], rows.w()
    if who == "published":
        return cx.LinearPosterior.fit(Z, y, w, intercept="unit")
    if e.method == "BayesSHAP":
        w = cx.shapley_kernel(Z.sum(axis=1), Z.shape[1])
    return cx.LinearPosterior.fit(Z, y, w, intercept="none")


def prior_share(p: cx.LinearPosterior) -> float:
    """Share of s² that is the prior's, φ̂ᵀφ̂/N and the intercept's square: it falls as 1/N."""
    return float((np.sum(p.mean**2) + np.square(p.intercept)) / p.n / p.s2)


def widest(e: Any) -> float:
    """Width of the widest interval."""
    return float(e.interval().width.max())


def half(e: Any) -> float:
    """Mean half-width of the features in the explanation."""
    return float(e.interval().width[e.selected[:, 0]].mean() / 2)


def picture(result: Result, figure: Figure) -> None:
    """History for against found, and how many perturbations it took."""
    figure.set_size_inches(8.6, 6.4)
    left, right = (tidy(ax) for ax in figure.subplots(1, 2))
    colours = [*COLOURS.values(), "#000000", "#7f5539"]
    for k, (title, cell) in enumerate(result.data.items()):
        for who, style in (("credex", "o-"), ("published", "x--"), ("paper", "+:")):
            c = cell.get(who)
            if c is None or not np.isfinite(c["ratio"][0]):
                continue
            top = c["desired"][0]
            asked = np.array(c["desired"]) / top
            ratio = np.array([b[0] for b in c["by width"]])
            error = np.array([b[1] for b in c["by width"]])
            left.errorbar(
                asked,
                asked * ratio,
                yerr=1.96 * asked * error,
                fmt=style,
                markersize=4,
                linewidth=1,
                color=colours[k],
                label=f"{title}, {who}",
            )
        if "credex" not in cell:
            continue
        n = np.array(cell["credex"]["n"])
        asked = np.array(cell["credex"]["desired"]) / cell["credex"]["desired"][0]
        right.plot(asked, np.median(n, axis=1), "o-", markersize=4, color=colours[k])
        low, high = np.quantile(n, (0.1, 0.9), axis=1)
        right.fill_between(asked, low, high, color=colours[k], alpha=0.12)
    left.plot([0.2, 1], [0.2, 1], color=GREY, linewidth=0.8)
    left.set_xlabel("asked for (largest = 1)")
    left.set_ylabel("found")
    figure.legend(loc="outside upper center", ncols=3, frameon=False, fontsize="x-small")
    right.set_yscale("log")
    plain(right.yaxis)
    right.set_xlabel("width asked for (largest = 1)")
    right.set_ylabel("perturbations, median and 10 to 90 %")
