"""Backgrounds, active features, and equal rows that are asked once."""

from __future__ import annotations

import inspect
import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from credex.domains import Tabular
from credex.domains.tabular import training
from credex.domains.tabular.coalitions import distinct_rows
from credex.domains.tabular.table import Table
from credex.domains.tabular.training import digest, summarise
from credex.errors import InputError

SETTINGS = settings(max_examples=60, deadline=None)


@given(
    n=st.integers(1, 40),
    d=st.integers(1, 8),
    rows=st.integers(1, 9),
    levels=st.integers(1, 3),
    seed=st.integers(0, 9),
)
@SETTINGS
def test_merged_rows_equal_brute_force(n: int, d: int, rows: int, levels: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    data = rng.integers(0, levels, (rows, d))
    x = rng.integers(0, levels, d)
    masks = rng.random((n, d)) < 0.5
    for native in (data, pd.DataFrame(data.astype(str))):
        domain = Tabular(native, background="all")
        here = domain.at(x if native is data else x.astype(str))
        got, index = here.coalition_inputs(masks)
        base = np.asarray(here.base_inputs()).astype(int)
        expected = np.where(masks[:, None, :], x, base).reshape(-1, d)
        values = np.asarray(got).astype(int)
        if index is not None:
            assert index.shape == (n, len(base))
            assert len(values) < 0.7 * n * len(base)
            values = values[index.reshape(-1)]
        np.testing.assert_array_equal(values, expected)


@pytest.mark.parametrize("d", [5, 30, 64, 100])
def test_all_key_widths_agree(d: int) -> None:
    rng = np.random.default_rng(d)
    masks = rng.random((200, d)) < 0.5
    differs = np.zeros((7, d), dtype=bool)
    differs[np.arange(7)[:, None], rng.integers(0, d, (7, 3))] = True
    differs[:, d - 1] = True
    if d > 62:
        differs |= rng.random((7, d)) < 3 / d
        differs[0] = True
    found = distinct_rows(masks, differs)
    assert found is not None
    kept, rows, index = found
    np.testing.assert_array_equal(kept[index], masks[:, None, :] & differs)
    np.testing.assert_array_equal(rows[index], np.tile(np.arange(7), (200, 1)))
    pairs = np.column_stack([rows, kept])
    assert len(np.unique(pairs, axis=0)) == len(pairs)


def test_continuous_data_are_not_searched(floats: Any) -> None:
    masks = np.random.default_rng(0).random((20, 5)) < 0.5
    assert Tabular(floats).at(floats[0] + 1).coalition_inputs(masks)[1] is None


def test_instance_equal_to_background_needs_one_row_each() -> None:
    data = np.ones((1, 3))
    here = Tabular(data).at(data[0])
    assert not here.active.any()
    rows, index = here.coalition_inputs(np.random.default_rng(0).random((50, 3)) < 0.5)
    assert rows.tolist() == [[1.0, 1.0, 1.0]]
    np.testing.assert_array_equal(index, np.zeros((50, 1)))


def test_active_sees_every_dtype(frame: pd.DataFrame) -> None:
    one = Tabular(frame.iloc[[0]])
    assert not one.at(frame.iloc[[0]]).active.any()
    for j, name in enumerate(frame.columns):
        other = frame.iloc[[0]].copy()
        different = next(
            i for i in range(len(frame)) if str(frame.iloc[i, j]) != str(frame.iloc[0, j])
        )
        other[name] = frame[name].iloc[[different]].array
        found = Tabular(frame.iloc[[0]], missing=True).at(other).active
        assert found.tolist() == [i == j for i in range(len(found))], name


def test_large_integers_are_compared_exactly() -> None:
    data = pd.DataFrame({"a": pd.array([2**60], dtype="Int64"), "b": ["x"]})
    assert Tabular(data).at([2**60 + 1, "x"]).active.tolist() == [True, False]
    assert Tabular(np.array([[2**60, 1]])).at([2**60 + 1, 1]).active.tolist() == [True, False]


def test_groups_move_together() -> None:
    data = pd.DataFrame({"a": [1, 2], "street": ["u", "v"], "b": [3, 4], "city": ["r", "o"]})
    domain = Tabular(data, groups={"address": ["city", "street"]})
    assert domain.names == ("a", "address", "b")
    here = domain.at([1, "w", 3, "o"])
    assert here.values == (1, "street=w, city=o", 3)
    rows, index = here.coalition_inputs(np.array([[False, True, False]]))
    assert index is None
    assert rows.to_numpy().tolist() == [[1, "w", 3, "o"], [2, "w", 4, "o"]]
    assert here.active.tolist() == [True, True, True]
    design = here.perturb(0, 0, 400)
    drawn = design.inputs()
    assert set(zip(drawn["street"], drawn["city"], strict=True)) == {("u", "r"), ("v", "o")}
    assert not design.design[:, 1].any()
    there = domain.at([1, "u", 3, "r"]).perturb(0, 0, 400)
    np.testing.assert_array_equal(there.design[:, 1], drawn["street"] == "u")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"groups": {"g": ["zz"]}}, "'zz'"),
        ({"groups": {"g": []}}, "'g'"),
        ({"groups": {"g": "a"}}, "list"),
        ({"groups": ["a"]}, "dict"),
        ({"groups": {"g": ["a"], "h": ["a"]}}, "twice"),
        ({"groups": {"b": ["a"]}}, "'b'"),
        ({"categorical": ["zz"]}, "'zz'"),
        ({"categorical": "a"}, "list"),
        ({"bins": "tercile"}, "tercile"),
        ({"bins": 1}, "1"),
        ({"bins": True}, "True"),
        ({"around": "me"}, "'me'"),
        ({"background": 0}, "0"),
        ({"background": "some"}, "'some'"),
        ({"background": True}, "True"),
        ({"background": 2.5}, r"2\.5"),
        ({"weights": [1.0]}, "shape"),
        ({"weights": [1, 2, -1]}, "negative"),
        ({"weights": [0, 0, 0]}, "zero"),
        ({"weights": [1, 2, np.nan]}, "finite"),
        ({"weights": "abc"}, "numbers"),
        ({"cohort": ["a"]}, "1 labels"),
        ({"cohort": 3}, "3"),
        ({"cohort": ["a", None, "b"]}, "row 1"),
        ({"missing": "maybe"}, "maybe"),
    ],
)
def test_bad_options(options: dict[str, Any], words: str) -> None:
    data = pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": [1, 2, 2]})
    with pytest.raises(InputError, match=words):
        Tabular(data, **options)


def test_misspelt_options(floats: Any) -> None:
    with pytest.raises(InputError, match=r"'backgroud'.*did you mean 'background'\?.*weights, gr"):
        Tabular(floats, backgroud=10)
    with pytest.raises(InputError, match="no option 'zzz'; there are: background, weights"):
        Tabular(floats, zzz=1)
    with pytest.raises(InputError, match="finite"):
        Tabular(floats, weights=np.ma.masked_array(np.ones(80), mask=np.arange(80) == 3))
    assert list(inspect.signature(Tabular).parameters)[:3] == ["data", "background", "weights"]
    assert Tabular(data=floats).names == ("x0", "x1", "x2", "x3", "x4")


def test_bad_masks(floats: Any) -> None:
    with pytest.raises(InputError, match=r"\(3, 4\)"):
        Tabular(floats).at(floats[0]).coalition_inputs(np.ones((3, 4), bool))


def test_k_means_picks_real_rows_with_cluster_weights() -> None:
    rng = np.random.default_rng(0)
    centres = np.array([[0.0, 0.0], [50.0, 0.0], [0.0, 900.0]])
    data = np.concatenate(
        [c + rng.normal(size=(k, 2)) for c, k in zip(centres, (100, 300, 600), strict=True)]
    )
    domain = Tabular(data, background=3)
    here = domain.at(data[0])
    base = here.base_inputs()
    assert domain.summary == here.background_note == "3 of 1000 rows (k-means)"
    assert all((row == data).all(axis=1).any() for row in base)
    order = np.argsort(here.background_weights)
    np.testing.assert_allclose(here.background_weights[order], [0.1, 0.3, 0.6])
    np.testing.assert_allclose(base[order], centres, atol=1.0)


def test_k_means_does_not_depend_on_units() -> None:
    rng = np.random.default_rng(0)
    side = np.repeat([0.0, 1.0], 200)
    data = np.column_stack([side + 0.01 * rng.normal(size=400), 1e4 * rng.normal(size=400)])
    base = Tabular(data, background=4).at(data[0])
    low = base.base_inputs()[:, 0] < 0.5
    assert base.background_weights[low].sum() == pytest.approx(0.5)


def test_mixed_data_are_sampled(frame: pd.DataFrame) -> None:
    domain = Tabular(frame, background=10)
    here = domain.at(frame.iloc[0])
    assert domain.summary == "10 of 60 rows (random sample)"
    np.testing.assert_allclose(here.background_weights, 0.1)
    assert len(set(here.base_inputs().index)) == 10


def test_duplicates_are_merged_first() -> None:
    data = np.repeat(np.array([[1.0, 2.0], [3.0, np.nan], [5.0, 6.0]]), [5, 3, 2], axis=0)
    domain = Tabular(data, background=3)
    here = domain.at(data[0])
    assert domain.summary == "all 10 rows (3 distinct)"
    np.testing.assert_array_equal(here.base_inputs(), data[[0, 5, 8]])
    np.testing.assert_allclose(here.background_weights, [0.5, 0.3, 0.2])
    assert Tabular(np.eye(3)).summary == "all 3 rows"
    assert Tabular(np.ones((1, 2))).summary == "the only row"


def test_weights_are_honoured() -> None:
    data = np.arange(8.0).reshape(4, 2)
    here = Tabular(data, weights=[1, 0, 2, 1]).at(data[0])
    np.testing.assert_array_equal(here.base_inputs(), data[[0, 2, 3]])
    np.testing.assert_allclose(here.background_weights, [0.25, 0.5, 0.25])
    drawn = Tabular(data, weights=[1, 0, 2, 1]).at(data[0]).perturb(0, 0, 4000).inputs()[:, 0]
    share = [(drawn == v).mean() for v in data[:, 0]]
    np.testing.assert_allclose(share, [0.25, 0, 0.5, 0.25], atol=0.03)  # 4 standard errors


def test_sampling_is_unbiased_for_heavy_rows() -> None:
    table = Table.of(pd.DataFrame({"a": [f"v{i}" for i in range(500)], "b": range(500)}))
    weights = np.ones(500)
    weights[17] = 499.0  # half of all weight
    found = summarise(table, weights, 50, numeric=False)
    heavy = found.weights[found.rows == 17]
    np.testing.assert_allclose(heavy, [0.5], atol=0.03)
    assert len(found.rows) <= 50
    assert found.weights.sum() == pytest.approx(1)


def test_cohorts_have_their_own_background_and_marginals() -> None:
    data = np.concatenate([np.arange(20.0).reshape(10, 2), 100 + np.arange(20.0).reshape(10, 2)])
    labels = np.array(["A"] * 10 + ["B"] * 10)
    domain = Tabular(data, cohort=labels)
    here, there = domain.at(data[0], cohort="A"), domain.at(data[0], cohort="B")
    assert here.base_inputs().max() < 100 <= there.base_inputs().min()
    assert here.perturb(0, 0, 99).inputs().max() < 100 <= there.perturb(0, 0, 99).inputs().min()
    assert here.perturb(0, 0, 9).key != there.perturb(0, 0, 9).key
    assert here.base_key != there.base_key
    assert len(domain.at(data[0]).base_inputs()) == 20
    with pytest.raises(InputError, match=r"'C'.*'A', 'B'"):
        domain.at(data[0], cohort="C")
    with pytest.raises(InputError, match="cohort"):
        Tabular(data).at(data[0], cohort="A")


def test_base_key_is_shared_and_survives_pickling(floats: Any) -> None:
    domain = Tabular(floats)
    copy = pickle.loads(pickle.dumps(domain))
    assert domain.at(floats[0]).base_key == copy.at(floats[1]).base_key
    assert domain.at(floats[0]).base_key != Tabular(floats).at(floats[0]).base_key
    np.testing.assert_array_equal(
        copy.at(floats[0]).base_inputs(), domain.at(floats[0]).base_inputs()
    )


def test_summaries_are_repeatable_and_quick_for_many_rows() -> None:
    data = np.random.default_rng(0).normal(size=(30_000, 6))
    first, second = Tabular(data), Tabular(data)
    np.testing.assert_array_equal(first.at(data[0]).base_inputs(), second.at(data[0]).base_inputs())
    assert first.at(data[0]).background_weights.sum() == pytest.approx(1)
    assert len(first.at(data[0]).background_weights) > 80


def test_infinite_values_are_carried_along() -> None:
    data = np.random.default_rng(0).normal(size=(200, 2))
    data[3, 0] = np.inf
    domain = Tabular(data, background=20)
    assert domain.summary.endswith("(random sample)")
    here = domain.at(data[3])
    assert np.isfinite(here.perturb(0, 0, 500).coordinates()).all()
    assert here.feature_labels[0].startswith("x0 > ")


def test_data_are_digested_once(frame: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def counted(*args: Any) -> str:
        made.append(args)
        return digest(*args)

    monkeypatch.setattr(training, "digest", counted)
    domain = Tabular(frame, background=10)
    kinds = ("coalitions", "perturbations")
    found = [[domain.at(frame.iloc[i]).digest(kind) for kind in kinds] for i in range(5)]
    assert found == [found[0]] * 5
    assert len(made) == 2
    again = Tabular(frame.copy(), background=10).at(frame.iloc[0])
    assert [again.digest(kind) for kind in kinds] == found[0]
    changed = frame.assign(age=frame["age"] + 1)
    for other in (Tabular(changed), Tabular(frame, bins=5), Tabular(frame, weights=range(60))):
        assert other.at(frame.iloc[0]).digest("perturbations") != found[0][1]
    assert Tabular(changed, background=10).at(frame.iloc[0]).digest("coalitions") != found[0][0]
