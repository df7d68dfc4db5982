"""Heat maps, regions and the wandering posterior of images."""

import dataclasses
import io
import subprocess
import sys

import matplotlib as mpl
import numpy as np
import pytest

mpl.use("Agg")

from matplotlib import pyplot as plt
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgb
from matplotlib.patches import PathPatch

import credex as cx
from credex import formatting
from credex.plots.image import Scene, borders, walk
from credex.posteriors import Belief

PICTURE = np.random.default_rng(0).integers(60, 200, (30, 40, 3), dtype=np.uint8)
GRID = cx.Grid(3, 4)
DOMAIN = cx.Image(GRID, fill=0)


def model(pictures):
    x = pictures.reshape(len(pictures), -1, pictures.shape[-1]).mean(axis=2) / 255
    return np.tanh(x @ np.linspace(-0.02, 0.03, x.shape[1]))


E = cx.BayesSHAP(model, DOMAIN).explain(PICTURE, queries=60)
SQUARE = cx.BayesSHAP(model, DOMAIN).explain(PICTURE[:, :30], queries=60)
TABLE = cx.BayesSHAP(lambda X: X[:, 0], np.eye(3)).explain([1.0, 2.0, 3.0])


def with_belief(e, mean, sd):
    scale = np.diag(np.broadcast_to(np.square(np.asarray(sd, dtype=float)), len(mean)))[:, :, None]
    return with_posterior(e, Belief(np.asarray(mean, dtype=float)[:, None], scale, 50.0))


def with_posterior(e, belief):
    estimate = dataclasses.replace(e.estimate, belief=belief, exact=False)
    return dataclasses.replace(e, estimate=estimate)


SURE = with_belief(E, np.linspace(-1, 1, 12), 0.001)
HALF = with_belief(E, np.linspace(-1, 1, 12), np.where(np.arange(12) < 6, 0.001, 10.0))


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def image_of(ax):
    return np.asarray(ax.images[0].get_array())


def test_orange_raises_and_blue_lowers():
    ax = SURE.plot.overlay()
    drawn = image_of(ax)
    labels = GRID(PICTURE)
    lowest, highest = drawn[labels == 0].mean(axis=0), drawn[labels == 11].mean(axis=0)
    for found, colour in ((lowest, formatting.NEGATIVE), (highest, formatting.POSITIVE)):
        far = [
            np.linalg.norm(found - to_rgb(c)) for c in (formatting.NEGATIVE, formatting.POSITIVE)
        ]
        assert np.argmin(far) == (0 if colour == formatting.NEGATIVE else 1)
    weak = drawn[labels == 5].mean(axis=0)  # −1/11: nearly grey
    assert np.ptp(weak) < np.ptp(lowest)


def test_uncertain_regions_are_pale_and_hatched():
    ax = HALF.plot.overlay()
    hatched = [p for p in ax.patches if isinstance(p, PathPatch) and p.get_hatch()]
    assert len(hatched) == 1
    corners = hatched[0].get_path().vertices.reshape(-1, 5, 2)[:, 0] + 0.5
    where = np.zeros((30, 40), dtype=bool)
    where[corners[:, 1].astype(int), corners[:, 0].astype(int)] = True
    assert np.array_equal(where, GRID(PICTURE) >= 6)
    assert "(6 of 12)" in ax.get_xlabel()
    sure = image_of(SURE.plot.overlay())[GRID(PICTURE) == 11].mean(axis=0)
    pale = image_of(ax)[GRID(PICTURE) == 11].mean(axis=0)
    assert np.ptp(pale) < 0.6 * np.ptp(sure)


def test_level_decides_what_is_certain():
    e = with_belief(E, np.full(12, 0.3), 0.2)  # 1.5 standard deviations from zero
    assert "12 of 12" in e.plot.overlay(level=0.95).get_xlabel()
    assert "no 80 % interval includes zero" in e.plot.overlay(level=0.8).get_xlabel()
    assert not e.plot.overlay(level=0.8).patches


def test_borders_separate_the_regions():
    labels = np.array([[0, 0, 1], [0, 2, 1]])
    lines = {tuple(map(tuple, line)) for line in borders(labels).tolist()}
    assert ((1.5, -0.5), (1.5, 0.5)) in lines  # between 0 and 1, first row
    assert ((0.5, 0.5), (0.5, 1.5)) in lines  # between 0 and 2
    assert ((0.5, 0.5), (1.5, 0.5)) in lines  # above 2
    assert len(lines) == 4
    drawn = [c for c in SURE.plot.overlay().collections if isinstance(c, LineCollection)]
    assert len(drawn[0].get_segments()) == 3 * 30 + 2 * 40


@pytest.mark.parametrize(
    "x",
    [
        PICTURE[:, :, 0],
        np.moveaxis(PICTURE, 2, 0),
        PICTURE / 255,
        (PICTURE - 120.0) / 50,
        np.concatenate([PICTURE, PICTURE[:, :, :1]], axis=2),
    ],
    ids=["grey", "channels first", "floats", "standardised", "transparent"],
)
def test_every_form_is_drawn(x):
    e = cx.BayesSHAP(
        lambda p: p.reshape(len(p), -1).astype(float).mean(axis=1), cx.Image(GRID, fill="mean")
    ).explain(x[::1], queries=40)
    drawn = Scene.of(e).colour
    assert drawn.shape == (30, 40, 3)
    assert drawn.min() >= 0
    assert drawn.max() <= 1
    e.plot.overlay().figure.canvas.draw()
    e.plot.regions(2).figure.canvas.draw()


def test_many_bands_are_drawn_as_their_mean():
    x = np.random.default_rng(0).random((12, 14, 6))
    domain = cx.Image(cx.Grid(2, 2), channels="last", fill=0.0)
    e = cx.BayesSHAP(lambda p: p.mean(axis=(1, 2, 3)), domain).explain(x)
    drawn = Scene.of(e).colour
    np.testing.assert_array_equal(drawn[:, :, 0], drawn[:, :, 2])  # grey
    # the picture is scaled to its range; the mean of the bands keeps its order
    order = np.argsort(x.mean(axis=2), axis=None)
    assert np.all(np.diff(drawn[:, :, 0].ravel()[order]) >= -1e-12)
    assert image_of(e.plot.overlay()).shape == (12, 14, 3)


def test_plots_survive_json():
    back = cx.Explanation.from_json(E.to_json())
    assert np.array_equal(image_of(back.plot.overlay()), image_of(E.plot.overlay()))
    assert back.plot.regions(3).get_xlabel() == E.plot.regions(3).get_xlabel()


def test_regions_shows_the_top_ones_in_their_own_colours():
    ax = SURE.plot.regions(2)
    labels, drawn = GRID(PICTURE), image_of(ax)
    kept = np.isin(labels, [0, 11])
    np.testing.assert_allclose(drawn[kept], PICTURE[kept] / 255)
    assert not np.allclose(drawn[~kept], PICTURE[~kept] / 255, atol=0.05)
    assert [t.get_text() for t in ax.texts] == ["1", "2"]
    said = ax.get_xlabel()
    assert "region 0: −1.0000" in said
    assert "region 11: 1.0000" in said
    for i, t in enumerate(ax.texts):
        x, y = t.get_position()
        assert labels[round(y), round(x)] == (0, 11)[i]


def test_regions_signed_shows_only_what_raises():
    said = SURE.plot.regions(20, signed=True).get_xlabel()
    assert said.count("region") == 6
    assert "−1.0000" not in said


def test_uncertain_regions_are_dashed():
    ax = HALF.plot.regions(12)
    styles = [c.get_linestyle()[0][1] for c in ax.collections[1::2]]
    assert sum(s is not None for s in styles) == 6


def test_which_output():
    two = cx.BayesSHAP(lambda p: np.stack([model(p), -model(p)], 1), DOMAIN)
    e = two.explain(PICTURE, queries=60)
    with pytest.raises(cx.InputError, match="say which output"):
        e.plot.overlay()
    one, other = (image_of(e.plot.overlay(output=j)) for j in (0, 1))
    assert not np.allclose(one, other)


@pytest.mark.parametrize("method", ["overlay", "regions"])
def test_given_axes_are_used(method):
    _, grid = plt.subplots(1, 2)
    ax = getattr(E.plot, method)(ax=grid[1])
    assert ax is grid[1]
    assert not grid[0].images
    assert len(ax.figure.axes) == 2  # no colour bar squeezed in


@pytest.mark.parametrize("method", ["overlay", "regions"])
def test_only_images_have_regions(method, tmp_path):
    with pytest.raises(cx.InputError, match="not of an image"):
        getattr(TABLE.plot, method)()
    with pytest.raises(cx.InputError, match="not of an image"):
        TABLE.plot.posterior_gif(tmp_path / "a.gif")


def test_nothing_known_is_said():
    nothing = with_belief(E, np.full(12, np.nan), 1.0)
    with pytest.raises(cx.InputError, match="too little was asked"):
        nothing.plot.overlay()


@pytest.mark.parametrize("style", ["default", "dark_background"])
@pytest.mark.parametrize("method", ["overlay", "regions"])
@pytest.mark.parametrize("shape", ["wide", "square"])
def test_nothing_is_cut_off(method, style, shape):
    e = E if shape == "wide" else SQUARE
    with plt.style.context(style):
        file = io.BytesIO()
        getattr(e.plot, method)().figure.savefig(file, dpi=90)  # once, as a user does
    drawn = plt.imread(io.BytesIO(file.getvalue()))[:, :, :3]
    for edge in (drawn[0], drawn[-1], drawn[:, 0], drawn[:, -1]):
        assert np.abs(edge - drawn[0, 0]).max() < 0.03  # no ink on the edge of the figure


def test_a_constant_model_is_drawn():
    e = cx.BayesSHAP(lambda p: np.ones(len(p)), cx.Image(cx.Grid(2, 2), fill=0)).explain(PICTURE)
    ax = e.plot.overlay()
    ax.figure.canvas.draw()
    np.testing.assert_array_equal(image_of(ax), Scene.of(e).grey)
    bar = next(other for other in ax.figure.axes if other is not ax)
    assert bar.get_ylim() == (-1.0, 1.0)


# -- the animation -----------------------------------------------------------------------------


def test_the_gif_has_its_frames_and_certain_regions_keep_their_colour(tmp_path, need):
    image = need("PIL.Image")
    path = HALF.plot.posterior_gif(tmp_path / "a.gif", draws=4, seconds=3)
    assert path == tmp_path / "a.gif"
    frames = []
    with image.open(path) as gif:
        assert gif.n_frames == 25
        assert gif.info["duration"] == 120
        assert gif.info["loop"] == 0
        for i in range(gif.n_frames):
            gif.seek(i)
            frames.append(np.asarray(gif.convert("RGB")).astype(float))
    spread = np.stack(frames).std(axis=0).max(axis=2)
    rows, _ = np.nonzero(spread > 20)
    high = rows.max() - rows.min()
    assert high < 0.6 * 4.6 * 80  # the upper half of the picture, regions 0 to 5, stands still


def test_every_frame_is_a_draw_from_the_posterior():
    # 4,000 draws of 12 values: their sd is right to 1/√8000; 5 % is more than 4 standard errors
    # (each frame mixes two neighbouring draws: about as many independent values as draws).
    mean, sd = np.linspace(-1, 1, 12), np.linspace(0.1, 2, 12)
    e = with_belief(E, mean, sd)
    e = with_posterior(e, Belief(e.belief.mean, e.belief.scale, 1e9))
    frames = walk(e, 0, 4000, 12_000, seed=1)
    np.testing.assert_allclose(frames.std(axis=0), sd, rtol=0.05)
    np.testing.assert_allclose(frames.mean(axis=0), mean, atol=0.2)
    steps = np.abs(np.diff(np.vstack([frames, frames[:1]]), axis=0)).max(axis=0)
    assert np.all(steps < 6 * sd)  # smooth, and closed


def test_the_walk_visits_its_draws_and_depends_on_the_seed_only():
    first = walk(E, 0, 4, 32, seed=3)
    assert np.array_equal(first, walk(E, 0, 4, 32, seed=3))
    assert not np.array_equal(first, walk(E, 0, 4, 32, seed=4))
    np.testing.assert_allclose(first[::8], E.belief.sample(4, 3)[:, :, 0])


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"path": "a.mp4"}, "a.gif"),
        ({"draws": 0}, "draws.*0"),
        ({"seconds": 0}, "seconds.*0"),
    ],
)
def test_bad_animations(options, match, tmp_path):
    path = tmp_path / options.pop("path", "b.gif")
    with pytest.raises(cx.InputError, match=match):
        E.plot.posterior_gif(path, **options)
    assert not path.exists()


def test_the_animation_leaves_pyplot_alone(tmp_path):
    script = """
import sys, numpy as np, credex as cx
e = cx.BayesSHAP(lambda p: p.mean(axis=(1, 2)), cx.Image(cx.Grid(2, 2), fill=0.0)).explain(
    np.random.default_rng(0).random((8, 8)))
e.plot.posterior_gif(sys.argv[1], draws=2, seconds=1)
print("matplotlib.pyplot" in sys.modules)
"""
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", script, str(tmp_path / "a.gif")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "False"
