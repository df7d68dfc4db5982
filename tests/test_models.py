"""Real models, unwrapped: forests, pipelines, LightGBM; numpy, pandas, polars."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

import credex as cx
from tests.games import shapley
from tests.needs import need
from tests.strategies import Counting, mixed, numbers

pl = need("polars")


@pytest.fixture(scope="module")
def cancer():
    # float32: scikit-learn's trees compare in float32, and so does shap then
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    return X.iloc[:, :10].astype(np.float32), y


@pytest.fixture(scope="module")
def forest(cancer):
    return RandomForestClassifier(20, max_depth=6, random_state=0, n_jobs=1).fit(*cancer)


# -- against shap ------------------------------------------------------------------------------


def test_exhaustive_equals_shaps_tree_explainer(cancer, forest):
    X, _ = cancer
    background = X.iloc[:40]
    explainer = cx.BayesSHAP(forest, cx.Tabular(background, background="all"))
    tree = need("shap").TreeExplainer(forest, background, feature_perturbation="interventional")
    for i in (3, 50, 400):
        e = explainer.explain(X.iloc[i], sampler="exhaustive")
        assert e.exact
        truth = tree.shap_values(X.iloc[[i]], check_additivity=False)[0]
        np.testing.assert_allclose(e.mean, truth, atol=1e-7)
        np.testing.assert_allclose(e.base_value, tree.expected_value, atol=1e-9)
        np.testing.assert_allclose(e.prediction, forest.predict_proba(X.iloc[[i]])[0], atol=1e-12)


def test_exhaustive_equals_shaps_exact_explainer(cancer, forest):
    X, _ = cancer
    background = X.iloc[:15]

    def positive(rows):
        frame = pd.DataFrame(np.asarray(rows), columns=X.columns)
        return forest.predict_proba(frame)[:, 1]

    shap = need("shap")
    peer = shap.ExactExplainer(positive, shap.maskers.Independent(background.to_numpy(), 100))
    explainer = cx.BayesSHAP(forest, cx.Tabular(background, background="all"), target=1)
    e = explainer.explain(X.iloc[7], posterior="exact")
    assert e.exact
    truth = peer(X.iloc[[7]].to_numpy()).values[0]
    np.testing.assert_allclose(e.mean, truth, atol=1e-9)


def test_exhaustive_log_odds_are_means_over_rows(cancer):
    X, y = cancer
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X.iloc[:, :6], y)
    background = X.iloc[:10, :6]

    def odds(rows):
        p = np.clip(rows, 1e-6, 1 - 1e-6)
        return np.log(p) - np.log1p(-p)

    domain = cx.Tabular(background, background="all")
    explainer = cx.BayesSHAP(model, domain, target=1, link="logit", posterior="exact")
    e = explainer.explain(X.iloc[70, :6])
    d = 6
    table = []
    for code in range(2**d):
        mask = (code >> np.arange(d)) & 1
        rows = np.where(mask, X.iloc[70, :6].to_numpy(), background.to_numpy())
        rows = pd.DataFrame(rows, columns=background.columns)
        table.append(odds(model.predict_proba(rows)[:, 1]).mean())
    np.testing.assert_allclose(e.mean, shapley(np.array(table)), atol=1e-6)
    assert e.prediction == pytest.approx(table[-1], abs=1e-6)
    few = cx.BayesSHAP(model, domain, target=1, link="logit").explain(X.iloc[70, :6], queries=300)
    assert few.interval(0.999).covers(e.mean).all()
    assert "log-odds" in str(e)


def test_budgeted_forest_adds_up_and_covers(cancer, forest):
    X, _ = cancer
    background = X.iloc[:30]
    explainer = cx.BayesSHAP(forest, cx.Tabular(background, background="all"), target=1)
    truth = explainer.explain(X.iloc[100], sampler="exhaustive")
    assert truth.exact
    e = explainer.explain(X.iloc[100], queries=150)
    assert not e.exact
    assert e.mean.sum() == pytest.approx(e.prediction - e.base_value, abs=1e-9)
    assert e.interval(0.9999).covers(truth.mean).all()
    assert np.all(e.interval().width > 0)


def test_summarised_background_says_so(cancer, forest):
    X, _ = cancer
    domain = cx.Tabular(X, background=100)
    e = cx.BayesSHAP(forest, domain, target=1).explain(X.iloc[0], queries=60)
    note = next(note for note in e.notes if note.startswith("background"))
    assert "100" in note
    assert str(len(X)) in note
    assert note in str(e)
    assert e.n_model_rows == e.n_queries + 1 <= 61


# -- outputs and targets -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def named():
    X = numbers(200, 4)
    y = np.where(X[:, 0] + X[:, 1] > 0, "yes", "no")
    return X, RandomForestClassifier(10, random_state=0, n_jobs=1).fit(X, y)


def test_string_labels(named):
    X, model = named
    explainer = cx.BayesSHAP(model, cx.Tabular(X, background=10))
    both = explainer.explain(X[0])
    assert both.outputs == ("no", "yes")
    yes = explainer.explain(X[0], target="yes")
    np.testing.assert_allclose(yes.mean, both.mean[:, 1], atol=1e-12)
    np.testing.assert_allclose(yes.mean, -explainer.explain(X[0], target="no").mean, atol=1e-9)
    np.testing.assert_array_equal(yes.mean, explainer.explain(X[0], target=1).mean)
    np.testing.assert_array_equal(yes.mean, explainer.explain(X[0], target=np.str_("yes")).mean)
    assert yes.outputs == ("yes",)
    assert "yes" in str(yes)
    assert both.top(1, output="yes") == both.top(1, output=1)


def test_a_bound_method_knows_its_classes(named):
    X, model = named
    a = cx.BayesSHAP(model.predict_proba, cx.Tabular(X, background=10), target="yes").explain(X[0])
    b = cx.BayesSHAP(model, cx.Tabular(X, background=10), target="yes").explain(X[0])
    np.testing.assert_array_equal(a.mean, b.mean)


@pytest.mark.parametrize("target", ["maybe", 2, -1, 0.5, True, "0"])
def test_an_unknown_target(named, target):
    X, model = named
    with pytest.raises(cx.InputError, match=r"target.*'no', 'yes'"):
        cx.BayesSHAP(model, X, target=target)
    with pytest.raises(cx.InputError, match=r"target.*'no', 'yes'"):
        cx.BayesSHAP(model, X).explain(X[0], target=target)


def test_numeric_labels_win_over_positions():
    X = numbers(200, 3)
    model = RandomForestClassifier(5, random_state=0, n_jobs=1).fit(X, np.where(X[:, 0] > 0, 1, 2))
    e = cx.BayesSHAP(model, X, target=1).explain(X[0])
    assert e.prediction == model.predict_proba(X[:1])[0, 0]  # class 1 stands first


def test_boolean_labels():
    X = numbers(200, 3)
    model = LogisticRegression().fit(X, X[:, 0] > 0)
    e = cx.BayesSHAP(model, X, target=True).explain(X[0])
    assert e.prediction == pytest.approx(model.predict_proba(X[:1])[0, 1])


def test_a_target_the_model_does_not_have():
    X = numbers(50, 3)
    with pytest.raises(cx.InputError, match="index"):
        cx.BayesSHAP(lambda r: r[:, 0], X, target="yes")
    with pytest.raises(cx.InputError, match=r"target=3.*only 1 output"):
        cx.BayesSHAP(lambda r: r[:, 0], X, target=3).explain(X[0])


def test_regressors_and_many_outputs():
    X, y = load_diabetes(return_X_y=True)
    model = RandomForestRegressor(5, max_depth=4, random_state=0, n_jobs=1)
    one = cx.BayesSHAP(model.fit(X, y), cx.Tabular(X, background=20)).explain(X[0], queries=100)
    assert one.mean.shape == (10,)
    assert one.prediction == pytest.approx(model.predict(X[:1])[0])
    two = model.fit(X, np.stack([y, -2 * y], axis=1))
    e = cx.BayesSHAP(two, cx.Tabular(X, background=20)).explain(X[0], queries=100)
    assert e.mean.shape == (10, 2)
    np.testing.assert_allclose(e.mean.sum(axis=0), e.prediction - e.base_value, atol=1e-8)
    np.testing.assert_allclose(e.mean[:, 1], -2 * e.mean[:, 0], atol=1e-8)


def test_three_classes():
    X, y = load_wine(return_X_y=True, as_frame=True)
    model = RandomForestClassifier(10, random_state=0, n_jobs=1).fit(X, y)
    for cls in (cx.BayesSHAP, cx.BayesLIME):
        e = cls(model, cx.Tabular(X, background=20)).explain(X.iloc[0], queries=100)
        assert e.mean.shape == (13, 3)
        assert e.names == tuple(X.columns)
        np.testing.assert_allclose(e.mean.sum(axis=1), 0, atol=1e-8)  # probabilities add up


def test_a_linear_model_is_known_in_closed_form():
    X = numbers(90, 20)
    model = LinearRegression().fit(X, X @ np.arange(20.0) + 3)
    truth = model.coef_ * (X[0] - X.mean(axis=0))
    e = cx.BayesSHAP(model, X).explain(X[0], queries=300)
    assert e.interval(0.999).covers(truth).all()
    assert np.abs(e.mean - truth).max() < 0.1 * np.abs(truth).max()


# -- what models may return --------------------------------------------------------------------


@pytest.mark.parametrize(
    "dress",
    [
        lambda y: y.astype(np.float32),
        lambda y: np.round(100 * y).astype(int),
        lambda y: y > 0,
        list,
        tuple,
        lambda y: pd.Series(y, index=np.arange(len(y))[::-1]),
        lambda y: pd.DataFrame({"score": y}),
        pl.Series,
        lambda y: pl.DataFrame({"score": y}),
        lambda y: y[:, None],
        lambda y: y.astype(object),
        lambda y: pd.Series(y).astype("Float64"),
    ],
    ids=[
        "float32",
        "int",
        "bool",
        "list",
        "tuple",
        "series",
        "frame",
        "polars series",
        "polars frame",
        "column",
        "object",
        "nullable",
    ],
)
def test_what_a_model_may_return(dress):
    X = numbers(60, 3)
    plain = np.asarray(dress(np.sin(X[:1]).sum(axis=1)), dtype=float).ravel()[0]
    for cls in (cx.BayesSHAP, cx.BayesLIME):
        e = cls(lambda r: dress(np.sin(r).sum(axis=1)), X).explain(X[0], queries=60)
        assert e.prediction == plain
        assert e.mean.shape == (3,)
        assert e.mean.dtype == np.float64


def test_a_frame_of_several_columns_is_several_outputs():
    X = numbers(60, 3)
    for make in (pd.DataFrame, pl.DataFrame):
        explainer = cx.BayesSHAP(lambda r, make=make: make({"a": r[:, 0], "b": r[:, 1]}), X)
        e = explainer.explain(X[0])
        assert e.mean.shape == (3, 2)
        assert e.outputs == ("a", "b")
        assert explainer.explain(X[0], target=1).outputs == ("b",)
    twice = cx.BayesSHAP(lambda r: pd.DataFrame(r[:, :2], columns=["a", "a"]), X).explain(X[0])
    assert twice.outputs == ("0", "1")


class Odd(list):
    columns = None


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pl.Series, pd.Series])
def test_single_precision_in_any_dress(make):
    X = numbers(60, 3)

    def model(rows):
        y = (rows[:, 0] + rows[:, 1] * rows[:, 2]).astype(np.float32)
        y = np.nextafter(y, np.float32(9)) if len(rows) > 1 else y  # rounds by the batch size
        return make({"p": y}) if make in (pd.DataFrame, pl.DataFrame) else make(y)

    assert cx.BayesLIME(model, X).explain(X[0], queries=60).n_queries == 60


def test_columns_that_are_no_names():
    X = numbers(60, 3)
    e = cx.BayesLIME(lambda rows: Odd(rows[:, :2].tolist()), X).explain(X[0], queries=60)
    assert e.outputs == ("0", "1")


# -- tables ------------------------------------------------------------------------------------


def pipeline(table):
    encode = ColumnTransformer(
        [
            ("numbers", make_pipeline(SimpleImputer(), StandardScaler()), ["age", "income"]),
            ("words", OneHotEncoder(handle_unknown="ignore"), ["job", "town", "owner"]),
            ("days", FunctionTransformer(days), ["since"]),
        ]
    )
    model = Pipeline(
        [("encode", encode), ("forest", RandomForestClassifier(10, random_state=0, n_jobs=1))]
    )
    return model.fit(
        table, np.where((table["income"] > 30) | (table["job"] == "pilot"), "yes", "no")
    )


def days(frame):
    return (frame["since"] - pd.Timestamp("2020-01-01")).dt.days.to_numpy(float)[:, None]


@pytest.mark.parametrize("cls", [cx.BayesSHAP, cx.BayesLIME])
def test_pipeline_on_a_mixed_frame(cls):
    table = mixed()
    model = pipeline(table)
    explainer = cls(model, cx.Tabular(table, background=20), target="yes")
    e = explainer.explain(table.iloc[4], queries=100)
    assert e.names == tuple(table.columns)
    assert e.prediction == pytest.approx(model.predict_proba(table.iloc[[4]])[0, 1])
    at = e.names.index("children")  # the pipeline does not look at it
    assert abs(e.mean[at]) < 1e-9 if e.exact else abs(e.mean[at]) < 0.2
    assert {"job", "income"} & set(e.top(2))
    batch = explainer.explain_many(table.iloc[:3], queries=100)
    np.testing.assert_array_equal(batch[1].mean, explainer.explain(table.iloc[1], queries=100).mean)


@pytest.mark.parametrize("form", ["series", "dict", "frame", "shuffled", "list"])
def test_forms_of_the_instance(form):
    table = mixed()
    model = pipeline(table)
    explainer = cx.BayesSHAP(model, cx.Tabular(table, background=10), target="yes")
    row = table.iloc[4]
    x = {
        "series": row,
        "dict": row.to_dict(),
        "frame": table.iloc[[4]],
        "shuffled": row.iloc[::-1],
        "list": row.tolist(),
    }[form]
    expected = explainer.explain(table.iloc[4], queries=60)
    np.testing.assert_array_equal(explainer.explain(x, queries=60).mean, expected.mean)


def test_what_reaches_the_model_looks_like_the_training_data():
    table = mixed()
    seen = []

    def model(rows):
        seen.append(rows)
        return rows["income"].to_numpy()

    for cls in (cx.BayesSHAP, cx.BayesLIME):
        cls(model, table).explain(table.iloc[0], queries=60)
    for rows in seen:
        pd.testing.assert_series_equal(rows.dtypes, table.dtypes)
        assert list(rows.columns) == list(table.columns)
        assert rows["town"].cat.categories.equals(table["town"].cat.categories)
        assert set(rows["job"]) <= set(table["job"])
        assert set(rows.index) <= set(table.index)


def test_lightgbm_unwrapped_on_a_frame_with_categories():
    lgb = need("lightgbm")
    table = mixed(300)[["age", "income", "town", "owner"]].copy()
    table["job"] = mixed(300)["job"].astype("category")
    y = np.where(table["income"] + 20 * (table["job"] == "pilot") > 35, "yes", "no")
    model = lgb.LGBMClassifier(n_estimators=10, min_child_samples=5, verbose=-1, n_jobs=1)
    model.fit(table, y)
    explainer = cx.BayesSHAP(model, cx.Tabular(table, background=30), target="yes")
    e = explainer.explain(table.iloc[2], queries=1000)
    assert e.exact
    assert e.prediction == pytest.approx(model.predict_proba(table.iloc[[2]])[0, 1], abs=1e-12)
    assert e.mean.sum() == pytest.approx(e.prediction - e.base_value, abs=1e-9)
    assert {"income", "job"} & set(e.top(2))
    lime = cx.BayesLIME(model, table, target="yes").explain(table.iloc[2], queries=400)
    assert {"income", "job"} & set(lime.top(2))
    regressor = lgb.LGBMRegressor(n_estimators=5, verbose=-1, n_jobs=1).fit(table, table["age"])
    e = cx.BayesSHAP(regressor, cx.Tabular(table, background=30)).explain(table.iloc[2])
    assert e.top(1) == ["age"]


def test_polars():
    source = mixed().drop(columns=["town", "children"])
    table = pl.DataFrame({name: source[name].tolist() for name in source})
    table = table.with_columns(
        town=pl.Series(mixed()["town"].astype(str).tolist(), dtype=pl.Categorical)
    )

    def model(rows):
        assert isinstance(rows, pl.DataFrame)
        assert rows.schema == table.schema
        return rows.select(
            pl.col("income") + 20 * pl.col("job").eq("pilot").cast(pl.Float64)
        ).to_series()

    pilot = table["job"].to_list().index("pilot")
    for cls in (cx.BayesSHAP, cx.BayesLIME):
        explainer = cls(model, table)
        e = explainer.explain(table[pilot], queries=200)
        assert set(e.top(2)) == {"income", "job"}
        same = explainer.explain(table.row(pilot, named=True), queries=200)
        np.testing.assert_array_equal(same.mean, e.mean)
        batch = explainer.explain_many(table[:3], queries=60)
        assert batch.mean.shape == (3, 6)
        again = cx.Explanation.from_json(e.to_json())
        np.testing.assert_array_equal(explainer.refine(again, queries=300).names, e.names)


def test_weighted_background():
    X = numbers(40, 4)
    w = np.arange(40.0)
    model = LinearRegression().fit(X, X.sum(axis=1))
    weighted = cx.Tabular(X, background="all", weights=w)
    e = cx.BayesSHAP(model, weighted, posterior="exact").explain(X[0])
    few = cx.BayesSHAP(model, weighted).explain(X[0], queries=300)
    assert few.interval(0.999).covers(e.mean).all()
    mean = np.average(X, axis=0, weights=w)
    np.testing.assert_allclose(e.mean, X[0] - mean, atol=1e-8)
    assert e.base_value == pytest.approx(mean.sum(), abs=1e-8)
    # whole weights are repeated rows
    again = cx.Tabular(np.repeat(X, w.astype(int), axis=0), background="all")
    forest = RandomForestRegressor(5, random_state=0, n_jobs=1).fit(X, X[:, 0] * X[:, 1])
    a = cx.BayesSHAP(forest, weighted, posterior="exact").explain(X[0])
    b = cx.BayesSHAP(forest, again, posterior="exact").explain(X[0])
    np.testing.assert_allclose(a.mean, b.mean, atol=1e-9)


def test_cohorts():
    X = numbers(60, 3)
    label = np.where(X[:, 0] > 0, "high", "low")
    domain = cx.Tabular(X, background="all", cohort=label)
    model = LinearRegression().fit(X, X.sum(axis=1))
    explainer = cx.BayesSHAP(model, domain)
    for name in ("high", "low"):
        e = explainer.explain(X[0], cohort=name)
        mean = X[label == name].mean(axis=0)
        np.testing.assert_allclose(e.mean, X[0] - mean, atol=1e-8)
        read = cx.Explanation.from_json(e.to_json())
        np.testing.assert_allclose(explainer.refine(read, queries=300).mean, e.mean, atol=1e-9)
    with pytest.raises(cx.InputError, match=r"medium.*'high'|medium.*'low'"):
        explainer.explain(X[0], cohort="medium")
    with pytest.raises(cx.InputError, match="cohort"):
        cx.BayesSHAP(model, X).explain(X[0], cohort="high")


def test_missing_values_where_the_model_takes_them():
    X = numbers(150, 4)
    X[::5, 1] = np.nan
    lgb = need("lightgbm")
    model = lgb.LGBMRegressor(n_estimators=5, verbose=-1, n_jobs=1).fit(X, np.nan_to_num(X[:, 1]))
    for cls in (cx.BayesSHAP, cx.BayesLIME):
        e = cls(model.predict, X).explain(X[0], queries=100)
        assert np.all(np.isfinite(e.mean))
        assert "missing" in str(e)


def test_models_are_called_through_predict_proba_first():
    class Both:
        classes_ = np.array([0, 1])

        def predict(self, rows):
            raise AssertionError

        def predict_proba(self, rows):
            p = 1 / (1 + np.exp(-rows[:, 0]))
            return np.stack([1 - p, p], axis=1)

    X = numbers(40, 3)
    assert cx.BayesSHAP(Both(), X).explain(X[0]).mean.shape == (3, 2)
    counter = Counting(lambda r: r[:, 0])
    assert cx.BayesSHAP(counter, X).explain(X[0]).top(1) == ["x0"]


@pytest.mark.parametrize("method", [cx.BayesSHAP, cx.BayesLIME])
def test_outputs_whose_squares_overflow_are_a_clear_error(method):
    with pytest.raises(cx.ModelOutputError, match=r"9e\+200.*divide the output"):
        method(lambda z: 1e200 * z.sum(axis=1), cx.Masks(9)).explain(queries=40)
