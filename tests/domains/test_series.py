"""Series cut into segments, filled, and explained."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import credex as cx
from credex.domains.series import bounds, interpolated
from tests.strategies import seeds

X = np.array([1.0, 1.0, 5.0, 5.0, 3.0, 3.0])
FILLS = ["mean", "linear", "noise", 0.0, np.arange(6.0)]


@pytest.mark.parametrize("shape", [(6,), (6, 1), (6, 3)])
@pytest.mark.parametrize("fill", FILLS[:-1])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
def test_everything_on_gives_the_series_back(shape, fill, dtype):
    x = np.random.default_rng(0).integers(-9, 9, shape).astype(dtype)
    here = cx.Series(segments=3, fill=fill).at(x)
    rows = here.instance_inputs()
    assert rows.shape == (1, *shape)
    assert rows.dtype == (dtype if dtype != np.int64 else np.float64)
    np.testing.assert_array_equal(rows[0], x)
    assert here.base_inputs().shape == (1, *shape)


@given(st.integers(1, 40), st.data(), seeds)
def test_only_the_segments_that_are_off_change(steps, data, seed):
    segments = data.draw(st.integers(1, steps))
    channels = data.draw(st.sampled_from(["together", "each"]))
    fill = data.draw(st.sampled_from(["mean", "linear", "noise"]))
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(steps, 2))
    here = cx.Series(segments, fill=fill, channels=channels).at(x)
    assert len(here.names) == segments * (2 if channels == "each" else 1)
    assert len(set(here.names)) == len(here.names)
    on = rng.random((4, len(here.names))) < 0.5
    rows, _ = here.coalition_inputs(on)
    kept = on[:, here._part_of]
    np.testing.assert_array_equal(rows[kept], np.broadcast_to(x, rows.shape)[kept])
    assert np.isfinite(rows).all()


def row(fill, on, x=X):
    return cx.Series(segments=3, fill=fill).at(x).coalition_inputs(np.array([on], dtype=bool))[0][0]


def test_fills():
    np.testing.assert_array_equal(row("mean", [1, 0, 1]), [1, 1, 3, 3, 3, 3])
    np.testing.assert_array_equal(row(0.0, [0, 1, 1]), [0, 0, 5, 5, 3, 3])
    np.testing.assert_array_equal(row(np.arange(6.0), [0, 1, 0]), [0, 1, 5, 5, 4, 5])
    # from 1 at step 1 to 3 at step 4, over steps 2 and 3
    np.testing.assert_allclose(row("linear", [1, 0, 1]), [1, 1, 5 / 3, 7 / 3, 3, 3])
    np.testing.assert_array_equal(row("linear", [0, 1, 0]), [5, 5, 5, 5, 5, 5])  # goes on
    np.testing.assert_array_equal(row("linear", [0, 0, 0]), [3] * 6)  # nothing to go on from
    a, b = row("noise", [0, 0, 0]), row("noise", [0, 1, 0])
    np.testing.assert_array_equal(a[:2], b[:2])  # drawn once
    other = cx.Series(segments=3, fill="noise", seed=1).at(X).base_inputs()[0]
    assert not np.array_equal(a, other)


def test_linear_equals_interpolation():
    rng = np.random.default_rng(1)
    x, on = rng.normal(size=(30, 2)), rng.random((50, 30, 2)) < 0.3
    made = interpolated(x, on, np.zeros_like(x))
    steps = np.arange(30.0)
    for n in range(50):
        for c in range(2):
            k = on[n, :, c]
            expected = np.interp(steps, steps[k], x[k, c]) if k.any() else np.zeros(30)
            np.testing.assert_allclose(made[n, :, c], expected, atol=1e-12)


def test_bounds():
    assert bounds(10, 4, None) == ((0, 2), (2, 5), (5, 8), (8, 10))
    assert bounds(10, None, 4) == ((0, 4), (4, 8), (8, 10))
    assert bounds(10, (0, 3, 10), None) == ((0, 3), (3, 10))
    assert cx.Series().at(np.arange(50.0)).bounds[0] == (0, 5)
    assert cx.Series([1, 3]).at(X).names == ("step 0", "steps 1–2", "steps 3–5")


def test_names_of_channels():
    x = np.stack([X, X], axis=1)
    assert cx.Series(2).at(x).names == ("steps 0–2", "steps 3–5")
    assert cx.Series(1, channels="each").at(x).names == (
        "channel 0, steps 0–5",
        "channel 1, steps 0–5",
    )
    assert cx.Series(1, channels=["up", "down"]).at(x).names == ("up, steps 0–5", "down, steps 0–5")
    with pytest.raises(cx.InputError, match="1 names of channels for a series of 2"):
        cx.Series(1, channels=["up"]).at(x)


@pytest.mark.parametrize(
    ("options", "x", "match"),
    [
        ({"segments": 9}, X, "9 segments of a series of 6"),
        ({"segments": [4, 2]}, X, "not a rising list"),
        ({"segments": [2, 9]}, X, "not a rising list"),
        ({}, np.ones((2, 3, 4)), "explain_many"),
        ({}, "text", "type <U4; integers or floats are needed"),
        ({}, [], "x is empty"),
        ({"segments": 2}, [1.0, np.nan], "1 values that are NaN"),
        ({"segments": 2, "fill": np.ones(5)}, X, r"shape \(5,\)"),
    ],
)
def test_bad_series_never_reach_the_model(options, x, match):
    def never(rows):
        raise AssertionError(rows)

    with pytest.raises(cx.InputError, match=match):
        cx.BayesSHAP(never, cx.Series(**options)).explain(x)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"segments": 0}, "segments"),
        ({"segments": "ten"}, "segments is 'ten'"),
        ({"segments": []}, "empty list"),
        ({"segments": 3, "length": 2}, "not both"),
        ({"length": 0}, "length"),
        ({"fill": "median"}, "fill='median'"),
        ({"fill": [np.nan]}, "fill has 1"),
        ({"channels": "apart"}, "channels='apart'"),
        ({"seed": "x"}, "seed"),
        ({"seed": -1}, "seed"),
    ],
)
def test_bad_options(options, match):
    with pytest.raises(cx.InputError, match=match):
        cx.Series(**options)


def energy(rows):
    """What the model sees is (n, T): the energy between steps 2 and 4."""
    assert rows.ndim == 2
    return (rows[:, 2:4] ** 2).sum(axis=1)


def test_importances_by_hand():
    e = cx.BayesSHAP(energy, cx.Series(3)).explain(X)
    np.testing.assert_allclose(e.mean, [0, 50 - 18, 0], atol=1e-12)
    assert e.base_value == 18
    assert "the mean of its channel takes a segment's place" in str(e)
    lime = cx.BayesLIME(energy, cx.Series(3, fill=0.0)).explain(X)
    np.testing.assert_allclose(lime.mean, [0, 50, 0], atol=1e-9)
    assert lime.units == ("per segment present",) * 3


def test_segments_like_their_fill_cost_nothing():
    here = cx.Series(3).at(X)
    assert here.active.tolist() == [True, True, False]  # the last is the mean itself
    assert cx.Series(3, fill="linear").at(X).active.all()


def test_batches_json_and_refine():
    rng = np.random.default_rng(0)
    many = rng.normal(size=(4, 30, 2))

    def model(rows):
        return np.tanh(rows[:, 5:20, 0].sum(axis=1)) * rows[:, 15:, 1].mean(axis=1)

    domain = cx.Series(8, channels="each", fill="linear")
    shap = cx.BayesSHAP(model, domain)
    batch = shap.explain_many(many, queries=80)
    np.testing.assert_array_equal(batch[2].mean, shap.explain(many[2], queries=80).mean)
    mixed = shap.explain_many([many[0], many[1][:24]], queries=80)  # other lengths, other calls
    np.testing.assert_array_equal(mixed[0].mean, batch[0].mean)
    e = cx.Explanation.from_json(batch[1].to_json())
    finer = shap.refine(e, queries=160)
    np.testing.assert_allclose(finer.mean, shap.explain(many[1], queries=160).mean, atol=1e-12)
    with pytest.raises(cx.InputError, match="another instance"):
        cx.BayesSHAP(model, cx.Series(8, channels="each")).refine(e, queries=160)
    with pytest.raises(cx.InputError, match="not of a series"):
        domain.restore({"kind": "text"})
    json.dumps(e.payload)
    frame_like = cx.Series(2).split(many[:, :, 0])
    assert len(frame_like) == 4
    with pytest.raises(cx.InputError, match="pass an array"):
        domain.split("series")
