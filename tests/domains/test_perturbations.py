"""BayesLIME's neighbourhoods: streams, bins, continuous features, keys."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from credex.domains import Tabular
from credex.domains.tabular.columns import Marginal, bin_labels, number_texts, quantiles
from credex.errors import InputError
from tests.needs import need

pl = need("polars")


def mixed(n: int = 300) -> pd.DataFrame:
    rng = np.random.default_rng(5)
    out = pd.DataFrame(
        {
            "age": rng.integers(18, 90, n),
            "pay": rng.normal(30, 9, n),
            "sex": rng.choice(["f", "m"], n, p=[0.7, 0.3]),
            "on": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), "D"),
        }
    )
    out.loc[out.index[:60], "pay"] = np.nan
    return out


@given(st.integers(0, 2**40), st.integers(0, 3000), st.integers(0, 1500))
@settings(max_examples=25, deadline=None)
def test_any_slice_of_the_stream_agrees(seed: int, start: int, length: int) -> None:
    data = np.random.default_rng(0).normal(size=(50, 3))
    for options in ({}, {"bins": None}, {"bins": None, "around": "instance"}):
        here = Tabular(data, **options).at(data[0])
        whole = here.perturb(seed, 0, start + length)
        part = here.perturb(seed, start, start + length)
        np.testing.assert_array_equal(part.design, whole.design[start:])
        np.testing.assert_array_equal(part.inputs(), whole.inputs()[start:])


def test_seeds_differ_and_repeat() -> None:
    here = Tabular(mixed()).at(mixed().iloc[100])
    assert here.perturb(1, 0, 50).inputs().equals(here.perturb(1, 0, 50).inputs())
    assert not here.perturb(1, 0, 50).inputs().equals(here.perturb(2, 0, 50).inputs())
    for bad in ((-1, 0, 5), (0, 5, 2), (0, -1, 2), (0.5, 0, 2)):
        with pytest.raises(InputError):
            here.perturb(*bad)
    assert here.perturb(0, 3, 3).inputs().shape == (0, 4)


def test_design_says_what_the_inputs_are() -> None:
    data = mixed()
    domain = Tabular(data)
    for i in (0, 100):
        x = data.iloc[i]
        here = domain.at(x)
        out = here.perturb(3, 0, 2000)
        rows = out.inputs()
        assert out.design.dtype == np.bool_
        edges = np.quantile(data["age"], [0.25, 0.5, 0.75])
        own = np.searchsorted(edges, x["age"])
        np.testing.assert_array_equal(out.design[:, 0], np.searchsorted(edges, rows["age"]) == own)
        if np.isnan(x["pay"]):
            np.testing.assert_array_equal(out.design[:, 1], rows["pay"].isna())
            assert here.feature_labels[1] == "pay missing"
        else:
            edges = np.nanquantile(data["pay"], [0.25, 0.5, 0.75])
            inside = np.searchsorted(edges, rows["pay"]) == np.searchsorted(edges, x["pay"])
            np.testing.assert_array_equal(out.design[:, 1], inside & rows["pay"].notna())
        np.testing.assert_array_equal(out.design[:, 2], rows["sex"] == x["sex"])
        assert here.feature_labels[2] == f"sex = {x['sex']}"
        np.testing.assert_array_equal(here.design_at, np.ones(4))
        assert here.unit == ("per same bin",) * 4
        for name in data:
            assert set(rows[name].dropna()) <= set(data[name].dropna())


def test_marginals_are_the_training_frequencies() -> None:
    rows = Tabular(mixed()).at(mixed().iloc[100]).perturb(0, 0, 20_000).inputs()
    # 5 standard errors of a share of 20,000 draws are below 0.018: false alarms < 1e-5.
    assert (rows["sex"] == "f").mean() == pytest.approx((mixed()["sex"] == "f").mean(), abs=0.018)
    assert rows["pay"].isna().mean() == pytest.approx(0.2, abs=0.018)
    both = (rows["pay"].isna() & (rows["sex"] == "f")).mean()
    assert both == pytest.approx(0.2 * (mixed()["sex"] == "f").mean(), abs=0.018)


def test_shared_keys() -> None:
    data = mixed()
    domain = Tabular(data)
    one, two = (domain.at(data.iloc[i]).perturb(4, 10, 30) for i in (100, 101))
    assert one.key == two.key
    assert hash(one.key) == hash(two.key)
    pd.testing.assert_frame_equal(one.inputs(), two.inputs())
    assert one.key != domain.at(data.iloc[100]).perturb(4, 10, 31).key
    assert one.key != domain.at(data.iloc[100]).perturb(5, 10, 30).key
    assert Tabular(data, around="instance").at(data.iloc[100]).perturb(4, 10, 30).key is None
    known = data.dropna()
    smooth = Tabular(known, bins=None)
    left, right = (smooth.at(known.iloc[i]).perturb(4, 0, 30) for i in (0, 1))
    assert left.key == right.key
    pd.testing.assert_frame_equal(left.inputs(), right.inputs())


@pytest.mark.parametrize("around", ["training", "instance"])
def test_continuous_features(around: Any) -> None:
    data = mixed()
    x = data.iloc[100]
    here = Tabular(data, bins=None, around=around).at(x)
    out = here.perturb(0, 0, 8000)
    rows = out.inputs()
    assert rows["age"].dtype == np.int64
    assert out.design.dtype == np.float64
    for j, name in ((0, "age"), (1, "pay")):
        mean, sd = data[name].mean(), data[name].std(ddof=0)
        np.testing.assert_allclose(out.design[:, j], (rows[name] - mean) / sd, atol=1e-9)
        assert here.design_at[j] == pytest.approx((x[name] - mean) / sd)
        middle = x[name] if around == "instance" else mean
        assert rows[name].mean() == pytest.approx(middle, abs=5 * sd / np.sqrt(8000))
        assert rows[name].std() == pytest.approx(sd, rel=0.06)
    assert set(np.unique(out.design[:, 2])) == {0.0, 1.0}
    assert here.unit == (*("per standard deviation",) * 2, "per same bin", "per standard deviation")
    assert here.feature_labels[0] == "age"
    with pytest.raises(InputError, match=r"'pay'.*bins"):
        Tabular(data, bins=None).at(data.iloc[0]).perturb(0, 0, 5)


def test_around_the_instance_with_bins() -> None:
    data = mixed()
    x = data.iloc[100]
    out = Tabular(data, around="instance").at(x).perturb(0, 0, 4000)
    rows = out.inputs()
    edges = np.quantile(data["age"], [0.25, 0.5, 0.75])
    same = np.searchsorted(edges, rows["age"]) == np.searchsorted(edges, x["age"])
    np.testing.assert_array_equal(out.design[:, 0], same)
    assert rows["age"].mean() == pytest.approx(x["age"], abs=2)
    gap = Tabular(data, around="instance").at(data.iloc[0]).perturb(0, 0, 2000)
    np.testing.assert_array_equal(gap.design[:, 1], gap.inputs()["pay"].isna())


def test_constant_and_empty_columns() -> None:
    data = pd.DataFrame({"c": [5.0] * 6, "e": [np.nan] * 6, "v": np.arange(6.0)})
    for bins in ("quartile", None):
        here = Tabular(data, bins=bins).at([5.0, np.nan, 2.0])
        out = here.perturb(0, 0, 40)
        assert here.active.tolist() == [False, False, True]
        assert np.isfinite(out.coordinates()).all()
        assert out.inputs()["e"].isna().all()
        assert out.design[:, 1].all()


def test_coordinates() -> None:
    data = mixed()
    x = data.iloc[100]
    out = Tabular(data).at(x).perturb(0, 0, 500)
    rows, where = out.inputs(), out.coordinates()
    assert where.shape == (500, 4)
    np.testing.assert_allclose(
        where[:, 0] * data["age"].std(ddof=0), rows["age"] - data["age"].mean()
    )
    np.testing.assert_array_equal(where[:, 2], rows["sex"] != x["sex"])
    gone = rows["pay"].isna().to_numpy()
    assert where[gone, 1].max() < where[~gone, 1].min()
    assert len(set(where[gone, 1])) == 1
    days = (rows["on"] - data["on"].mean()) / data["on"].std(ddof=0)
    np.testing.assert_allclose(where[:, 3], days, atol=1e-6)


def test_unique_merges_only_few_values(floats: Any) -> None:
    data = pd.DataFrame({"a": list("uvu"), "b": [True, False, True], "c": [1.0, 2.0, np.nan]})
    out = Tabular(data).at(data.iloc[0]).perturb(0, 0, 500)
    rows, index = out.unique()
    assert index is not None
    assert len(rows) <= 12
    assert not rows.duplicated().any()
    pd.testing.assert_frame_equal(rows.iloc[index].reset_index(drop=True), out.inputs())
    everything, none = Tabular(floats).at(floats[0]).perturb(0, 0, 300).unique()
    assert none is None
    assert len(everything) == 300
    assert Tabular(data).at(data.iloc[0]).perturb(0, 0, 3).unique()[0].shape[1] == 3


@pytest.mark.parametrize("options", [{}, {"bins": None}, {"around": "instance"}])
def test_picking_rows(options: dict[str, Any]) -> None:
    for data in (mixed().dropna(), mixed().dropna()[["pay"]], pl.DataFrame({"a": [1, 2, 3]})):
        out = Tabular(data, **options).at(data[1:2]).perturb(0, 0, 60)
        chosen = np.array([5, 3, 50])
        whole = out.inputs()
        if isinstance(data, pl.DataFrame):
            assert out.pick(chosen).equals(whole[chosen])
        else:
            pd.testing.assert_frame_equal(out.pick(chosen), whole.iloc[chosen])


def test_numeric_categories() -> None:
    data = np.array([[1.0, 5.0], [2.0, 6.0], [3.0, 7.0], [1.0, 8.0]])
    for column in ("x0", 0, -2):
        here = Tabular(data, categorical=[column], bins=None).at([1.0, 5.0])
        out = here.perturb(0, 0, 100)
        np.testing.assert_array_equal(out.design[:, 0], out.inputs()[:, 0] == 1.0)
        assert here.feature_labels == ("x0 = 1", "x1")
    labelled = Tabular(pd.DataFrame(data, columns=[1, 0]), categorical=[0])
    assert labelled._features.roles == ["number", "category"]


def test_bins_are_limes() -> None:
    lime = need("lime.discretize")
    data = np.random.default_rng(0).gamma(2.0, size=(400, 1))
    for kind, count in ((lime.QuartileDiscretizer, 4), (lime.DecileDiscretizer, 10)):
        theirs = kind(data, [], ["v"], random_state=np.random.RandomState(0)).discretize(data)
        np.testing.assert_array_equal(Marginal.of_numbers(data[:, 0], count).codes, theirs[:, 0])


def test_bin_labels() -> None:
    age = Marginal.of_numbers(np.array([1.0, 2.0, 3.0, 4.0, 5.0, np.nan, np.inf]), 4)
    labels = bin_labels("age", number_texts(age.edges))
    found = [labels[age.code(value)] for value in (0.0, 2.5, 9.0, np.nan)]
    assert found == ["age ≤ 2", "2 < age ≤ 3", "age > 4", "age missing"]
    assert number_texts(np.array([12345.678, 12345.679])) == ["12345.678", "12345.679"]
    assert number_texts(np.array([0.123456, 29.0])) == ["0.1235", "29"]
    assert bin_labels("age", number_texts(quantiles(np.array([np.nan]), 4)))[0] == "age present"
    data = mixed()
    assert Tabular(data).at(data.iloc[100]).feature_labels[3] == (
        "2021-04-10 12:00 < on ≤ 2021-12-06 06:00"
    )
    days = pl.DataFrame(
        {"d": pl.Series([18262, 18263, 18264, 18265], dtype=pl.Int32).cast(pl.Date)}
    )
    assert Tabular(days, bins=2).at(days[1]).feature_labels == ("d ≤ 2020-01-02",)
    assert Tabular(days, bins=2).at(days[2]).feature_labels == ("d > 2020-01-02",)


def test_weighted_bins() -> None:
    values = np.array([1.0, 2.0, 3.0, 4.0])
    assert quantiles(values, 2, np.array([0.0, 0.0, 1.0, 1.0])).tolist() == [3.0]


def test_global_random_state_is_untouched() -> None:
    np.random.seed(1)
    before = np.random.get_state()
    data = np.random.default_rng(0).normal(size=(12_000, 3))
    for native in (data, pd.DataFrame(data).astype({0: str})):
        domain = Tabular(native, background=20)
        here = domain.at(native[0] if native is data else native.iloc[0])
        here.base_inputs()
        here.perturb(0, 0, 2000).inputs()
    after = np.random.get_state()
    assert before[0] == after[0]
    np.testing.assert_array_equal(before[1], after[1])
    assert before[2:] == after[2:]
    first = Tabular(data).at(data[0]).perturb(0, 0, 9).inputs()
    np.random.seed(99)
    np.testing.assert_array_equal(first, Tabular(data).at(data[0]).perturb(0, 0, 9).inputs())


def test_pickled_domains_and_neighbourhoods_agree(
    frame: pd.DataFrame, polars: pl.DataFrame
) -> None:
    for data in (frame, polars):
        domain = Tabular(data)
        here = domain.at(data[5:6])
        here.perturb(0, 0, 10)
        copy = pickle.loads(pickle.dumps(domain)).at(data[5:6])
        twin = pickle.loads(pickle.dumps(here))
        for other in (copy, twin):
            np.testing.assert_array_equal(
                other.perturb(0, 0, 50).design, here.perturb(0, 0, 50).design
            )
            assert other.perturb(0, 0, 50).inputs().equals(here.perturb(0, 0, 50).inputs())
            assert other.active.tolist() == here.active.tolist()
