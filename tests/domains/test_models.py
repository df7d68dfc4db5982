"""Real models, fitted on frames, take what the domain makes without a wrapper."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from credex.domains import Domain, Masks, Neighbourhood, Tabular
from tests.needs import need


def to_days(frame: pd.DataFrame) -> Any:
    assert all(kind.kind == "M" for kind in frame.dtypes)
    return frame.apply(lambda column: column.dt.day_of_year.fillna(0)).to_numpy(float)


@pytest.fixture
def pipeline(frame: pd.DataFrame) -> Pipeline:
    numbers = ["age", "small", "income", "half"]
    words = ["sex", "town", "grade", "flag", "thing"]
    encode = ColumnTransformer(
        [
            ("numbers", make_pipeline(SimpleImputer(), StandardScaler()), numbers),
            ("words", OneHotEncoder(handle_unknown="ignore"), words),
            ("days", FunctionTransformer(to_days), ["when", "zoned"]),
        ]
    )
    model = Pipeline([("encode", encode), ("forest", RandomForestClassifier(5, random_state=0))])
    return model.fit(frame, np.where(frame["income"] > 30, "yes", "no"))


def test_pipeline_of_a_frame(frame: pd.DataFrame, pipeline: Pipeline) -> None:
    domain = Tabular(frame, background=20)
    here = domain.at(frame.iloc[9])
    masks = np.concatenate(
        [np.eye(14, dtype=bool), np.ones((1, 14), bool), np.zeros((1, 14), bool)]
    )
    rows, index = here.coalition_inputs(masks)
    assert index is None
    values = pipeline.predict_proba(rows).reshape(16, -1, 2)
    alone = pipeline.predict_proba(frame.iloc[[9]])[0]
    np.testing.assert_array_equal(values[14], np.tile(alone, (len(here.background_weights), 1)))
    np.testing.assert_array_equal(values[15], pipeline.predict_proba(here.base_inputs()))
    assert pipeline.predict_proba(here.perturb(0, 0, 100).inputs()).shape == (100, 2)
    stacked = domain.concat([rows, here.instance_inputs()])
    np.testing.assert_array_equal(pipeline.predict_proba(stacked)[-1], alone)


def test_lightgbm_with_categories(frame: pd.DataFrame) -> None:
    data = frame[["age", "income", "town", "grade", "flag", "count"]]
    lgb = need("lightgbm")
    model = lgb.LGBMRegressor(n_estimators=5, min_child_samples=2, verbose=-1, n_jobs=1)
    model.fit(data, data["age"] + 10 * (data["town"] == "rome"))
    here = Tabular(data).at(data.iloc[3])
    rows, index = here.coalition_inputs(np.ones((1, 6), bool))
    answers = model.predict(rows)
    expected = model.predict(data.iloc[[3]])[0]
    flat = answers if index is None else answers[index.reshape(-1)]
    np.testing.assert_array_equal(flat, expected)


def test_polars_model(polars: Any) -> None:
    pl = need("polars")

    def model(rows: Any) -> Any:
        assert rows.schema == polars.schema
        return rows.select(pl.col("income") * pl.col("town").cast(pl.String).eq("rome")).to_numpy()

    here = Tabular(polars).at(polars[2])
    masks = np.ones((1, polars.width), bool)
    rows, index = here.coalition_inputs(masks)
    values = model(rows) if index is None else model(rows)[index.reshape(-1)]
    np.testing.assert_array_equal(values, np.tile(model(polars[2]), (len(values), 1)))


def test_protocols(floats: Any) -> None:
    for domain, x in ((Tabular(floats), floats[0]), (Masks(3), None)):
        assert isinstance(domain, Domain)
        assert isinstance(domain.at(x), Neighbourhood)


def test_import_needs_no_table_library() -> None:
    code = (
        "import sys, numpy as np\n"
        "from credex.domains import Tabular\n"
        "h = Tabular(np.eye(3)).at([1., 0., 0.])\n"
        "h.coalition_inputs(np.eye(3, dtype=bool)); h.perturb(0, 0, 5).inputs()\n"
        "assert not {'pandas', 'polars', 'sklearn'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)  # noqa: S603 - our own code
