"""Pictures: every form reaches the model as it came, cut and painted over as asked."""

import json
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.ndimage import gaussian_filter

import credex as cx
from credex.domains.image.image import ImageNeighbourhood, seen
from credex.domains.image.picture import Picture
from credex.domains.image.regions import Regions
from credex.model_queue import CALL_BYTES
from tests.games import brute_shapley

RNG = np.random.default_rng(0)
COLOUR = RNG.integers(0, 256, (24, 30, 3), dtype=np.uint8)
GREY = RNG.random((20, 16))
LABELS = cx.Grid(3, 4)(np.zeros((24, 30, 1)))

ARRAYS = {
    "HW uint8": COLOUR[:, :, 0],
    "HW float64": GREY,
    "HWC uint8": COLOUR,
    "HWC float32": (COLOUR / 255).astype(np.float32),
    "HWC one channel": COLOUR[:, :, :1],
    "HWC uint16": COLOUR.astype(np.uint16) * 200,
    "CHW uint8": np.moveaxis(COLOUR, 2, 0),  # a view, not contiguous
    "CHW float16": np.ascontiguousarray(np.moveaxis(COLOUR, 2, 0) / 255).astype(np.float16),
    "CHW standardised": np.moveaxis((COLOUR - 110.0) / 60.0, 2, 0).astype(np.float32),
    "HW big endian": GREY.astype(">f4"),
    "odd size": RNG.integers(0, 256, (7, 11, 3), dtype=np.uint8),
}


def spread(labels, x):
    """Labels in the shape of x."""
    if x.ndim == 2:
        return labels
    return np.broadcast_to(labels if x.shape[0] in (1, 3, 4) else labels[:, :, None], x.shape)


def random_masks(n, d, seed=0):
    return np.random.default_rng(seed).random((n, d)) < 0.5


# -- forms -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("fill", ["mean", cx.Blur(2.0), cx.Noise(0.1), "inpaint"])
def test_every_array_reaches_the_model_as_it_came(name, fill):
    x = ARRAYS[name]
    before = x.copy()
    here = cx.Image(segments=cx.Grid(2, 3), fill=fill).at(x)
    masks = random_masks(20, 6)
    out, index = here.coalition_inputs(masks)
    assert index is None
    assert out.dtype == x.dtype
    assert out.shape == (20, *x.shape)
    assert out.flags.c_contiguous
    assert out.flags.writeable
    labels = spread(here.regions.labels, x)
    assert np.array_equal(out, np.where(masks[:, labels], x, here.base_inputs()))
    assert np.array_equal(here.instance_inputs(), x[None])
    out[:] = 0  # a model may write into what it is given
    assert np.array_equal(x, before)
    assert np.array_equal(here.instance_inputs()[0], before)


@settings(max_examples=60, deadline=None)
@given(
    shape=st.tuples(st.integers(1, 9), st.integers(1, 9), st.integers(1, 4)),
    dtype=st.sampled_from(["u1", "u2", "i4", "f2", "f4", "f8"]),
    d=st.integers(1, 12),
    seed=st.integers(0, 1000),
)
def test_perturbed_pictures_are_exact_to_the_bit(shape, dtype, d, seed):
    rng = np.random.default_rng(seed)
    height, width, _ = shape
    x = rng.integers(0, 200, shape).astype(dtype)
    other = rng.integers(0, 200, shape).astype(dtype)
    if dtype[0] == "f":
        x.flat[0], other.flat[0] = np.nan, -0.0
    labels = rng.integers(0, d, (height, width))
    masks = rng.random((7, d)) < 0.5
    regions = Regions(labels, tuple(range(d)))
    here = ImageNeighbourhood(Picture(x, "HWC", "array", 0, 255), regions, other, "")
    out = here.inputs(masks)
    want = np.stack([np.where(m[labels][:, :, None], x, other) for m in masks])
    assert out.tobytes() == want.tobytes()


def test_no_masks_make_no_pictures():
    out, _ = cx.Image(cx.Grid(2, 2)).at(GREY).coalition_inputs(np.empty((0, 4), dtype=bool))
    assert out.shape == (0, 20, 16)


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA"])
def test_pil_images_go_out_as_pil_images(mode, need):
    image = need("PIL.Image")
    picture = image.fromarray(COLOUR).convert(mode)
    here = cx.Image(segments=LABELS).at(picture)
    masks = random_masks(5, 12)
    out, _ = here.coalition_inputs(masks)
    assert [p.mode for p in out] == [mode] * 5
    assert np.array_equal(np.asarray(here.instance_inputs()[0]), np.asarray(picture))
    seen_sizes = []

    def model(pictures):
        seen_sizes.append(len(pictures))
        return [np.asarray(p).mean() for p in pictures]

    batch = cx.BayesSHAP(model, cx.Image(segments=LABELS)).explain_many([picture] * 2, queries=40)
    assert len(batch) == 2
    assert max(seen_sizes) > 40  # lists of both rows were stacked


@pytest.mark.parametrize("suffix", ["png", "jpg"])
def test_paths_become_arrays(suffix, tmp_path, need):
    image = need("PIL.Image")
    path = tmp_path / f"a.{suffix}"
    image.fromarray(COLOUR).save(path)
    for given_path in (path, str(path)):
        here = cx.Image(segments=LABELS).at(given_path)
        assert here.instance_inputs().dtype == np.uint8
        assert here.instance_inputs().shape == (1, 24, 30, 3)
        assert here.label == str(path)
    e = cx.BayesSHAP(lambda x: x.mean(axis=(1, 2, 3)), cx.Image(segments=LABELS)).explain(
        path, queries=40
    )
    assert e.label == str(path)


def test_files_are_turned_upright_and_palettes_opened(tmp_path, need):
    image = need("PIL.Image")
    exif = image.Exif()
    exif[0x0112] = 6  # turn by 90°
    image.fromarray(COLOUR).save(tmp_path / "a.jpg", exif=exif)
    assert cx.Image(cx.Grid(2, 2)).at(tmp_path / "a.jpg").picture.size == (30, 24)
    image.fromarray(COLOUR).convert("P").save(tmp_path / "p.png")
    assert cx.Image(cx.Grid(2, 2)).at(tmp_path / "p.png").picture.channels == 3


def test_torch_tensors_stay_tensors(need):
    torch = need("torch")
    x = torch.rand(3, 8, 10)
    seen_types = set()

    def model(batch):
        seen_types.add((type(batch), batch.dtype, tuple(batch.shape[1:])))
        return batch.mean(dim=(1, 2, 3))

    domain = cx.Image(segments=cx.Grid(2, 2), fill=0.0)
    e = cx.BayesSHAP(model, domain).explain(x)
    assert seen_types == {(torch.Tensor, torch.float32, (3, 8, 10))}
    assert e.mean.sum() == pytest.approx(float(x.mean()), rel=1e-5)
    batch = cx.BayesSHAP(model, domain).explain_many(torch.rand(2, 3, 8, 10))
    assert batch.mean.shape == (2, 4)
    again = cx.BayesSHAP(model, domain).refine(cx.Explanation.from_json(e.to_json()), queries=17)
    assert np.array_equal(again.mean, e.mean)


def test_memory_of_a_network_is_counted():
    assert cx.Image(cx.Grid(2, 2)).at(GREY).row_bytes == 4 * GREY.nbytes


# -- segments ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def photo():
    y, x = np.mgrid[:60, :80]
    planes = [np.sin(x / 9), np.cos(y / 7), np.sin((x + y) / 11)]
    return np.stack([128 + 100 * p for p in planes], axis=2).astype(np.uint8)


@pytest.mark.parametrize(
    "segmenter",
    [
        cx.Slic(12),
        cx.Slic(12, compactness=1.0, sigma=1.0),
        cx.Quickshift(kernel_size=3, max_dist=12),
        cx.Felzenszwalb(scale=50, min_size=40),
        cx.Grid(3, 4),
    ],
    ids=repr,
)
@pytest.mark.parametrize("form", ["HW", "HWC", "CHW", "RGBA", "0 to 255"])
def test_segmenters_cut_every_form_and_always_the_same(segmenter, form, photo, need):
    need("skimage")
    x = {
        "HW": photo[:, :, 0] / 255,
        "HWC": photo,
        "CHW": np.moveaxis(photo, 2, 0),
        "RGBA": np.concatenate([photo, np.full((60, 80, 1), 255, np.uint8)], axis=2),
        "0 to 255": photo.astype(np.float32),
    }[form]
    first = cx.Image(segmenter).at(x)
    second = cx.Image(segmenter).at(x.copy())
    assert first.regions.labels.shape == (60, 80)
    assert 2 <= len(first.names) <= 200
    assert sorted(set(first.regions.labels.ravel())) == list(range(len(first.names)))
    assert np.array_equal(first.regions.labels, second.regions.labels)


def test_scale_of_the_values_does_not_change_the_cut(photo, need):
    need("skimage")
    cuts = [
        cx.Image(cx.Slic(12)).at(x).regions.labels
        for x in (photo, photo / 255, photo.astype(np.float32), np.moveaxis(photo, 2, 0))
    ]
    assert all(np.array_equal(cuts[0], other) for other in cuts[1:])


@pytest.mark.parametrize("n", [5, 20, 60])
def test_slic_gives_about_as_many_as_asked(n, photo, need):
    need("skimage")
    assert abs(len(cx.Image(cx.Slic(n)).at(photo).names) - n) <= 0.35 * n


def test_slic_is_the_default(photo, need):
    need("skimage")
    assert np.array_equal(
        cx.Image().at(photo).regions.labels, cx.Image(cx.Slic(20)).at(photo).regions.labels
    )


def test_own_labels_keep_their_numbers_despite_gaps():
    labels = np.zeros((20, 16), dtype=np.int32)
    labels[:10, 5:] = 7
    labels[10:, :5] = -1
    here = cx.Image(segments=labels).at(GREY)
    assert here.names == ("region -1", "region 0", "region 7")
    assert here.regions.labels.max() == 2
    out, _ = here.coalition_inputs(np.array([[True, True, False]]))
    assert np.array_equal(out[0] != GREY, labels == 7)


@pytest.mark.parametrize("labels", [LABELS > 5, LABELS[:, :, None], LABELS[None], LABELS.tolist()])
def test_labels_may_be_booleans_lists_or_one_channel(labels):
    here = cx.Image(segments=labels).at(COLOUR)
    assert here.regions.labels.shape == (24, 30)


def test_a_function_sees_floats_between_0_and_1():
    shown = []

    def halves(image):
        shown.append((image.shape, image.dtype, float(image.min()) >= 0, float(image.max()) <= 1))
        return np.arange(image.shape[1])[None, :] * 2 // image.shape[1] + np.zeros(
            image.shape[:2], dtype=int
        )

    here = cx.Image(segments=halves).at(np.moveaxis(COLOUR, 2, 0))
    assert shown == [((24, 30, 3), np.float64, True, True)]
    assert here.names == ("region 0", "region 1")


def test_places_are_said():
    here = cx.Image(cx.Grid(3, 3)).at(np.random.default_rng(0).random((30, 30)))
    assert here.values[0] == "top left, 11 %"
    assert here.values[4] == "middle, 11 %"
    assert here.values[7] == "bottom, 11 %"


# -- fills -------------------------------------------------------------------------------------


def test_mean_is_each_regions_own():
    here = cx.Image(segments=LABELS).at(COLOUR)
    base = here.base_inputs()[0]
    for j in range(12):
        want = np.rint(COLOUR[j == LABELS].mean(axis=0))
        assert np.array_equal(base[j == LABELS], np.broadcast_to(want, base[j == LABELS].shape))


@pytest.mark.parametrize(("fill", "want"), [(0, [0, 0, 0]), ((255, 0, 9), [255, 0, 9])])
def test_a_colour_in_the_units_of_the_image(fill, want):
    base = cx.Image(segments=LABELS, fill=fill).at(COLOUR).base_inputs()[0]
    assert np.array_equal(base, np.broadcast_to(want, COLOUR.shape))
    planes = cx.Image(segments=LABELS, fill=fill).at(np.moveaxis(COLOUR, 2, 0)).base_inputs()[0]
    assert np.array_equal(planes, np.moveaxis(base, 2, 0))


def test_blur_is_a_gaussian():
    base = cx.Image(cx.Grid(2, 2), fill=cx.Blur(3.0)).at(GREY).base_inputs()[0]
    np.testing.assert_allclose(base, gaussian_filter(GREY, 3.0, mode="nearest"), atol=1e-12)


def test_noise_depends_on_its_seed_only():
    def base(seed, fill_range=COLOUR):
        return cx.Image(cx.Grid(2, 2), fill=cx.Noise(0.2, seed)).at(fill_range).base_inputs()[0]

    assert np.array_equal(base(1), base(1))
    assert not np.array_equal(base(1), base(2))
    assert abs(base(1).std() - 0.2 * 255) < 8
    state = np.random.get_state()[1].copy()
    base(3)
    assert np.array_equal(np.random.get_state()[1], state)


def test_inpaint_continues_what_is_around():
    y, x = np.mgrid[:30, :40]
    plane = (0.3 + 0.01 * x + 0.005 * y).astype(np.float64)  # harmonic: it must come back as it is
    labels = np.zeros((30, 40), dtype=int)
    labels[8:20, 10:30] = 1
    x_with_spot = np.where(labels == 1, 0.9, plane)
    base = cx.Image(segments=labels, fill="inpaint").at(x_with_spot).base_inputs()[0]
    np.testing.assert_allclose(base[labels == 1], plane[labels == 1], atol=1e-9)


def test_another_picture():
    other = COLOUR[::-1].copy()
    here = cx.Image(segments=LABELS, fill=other).at(COLOUR)
    assert np.array_equal(here.base_inputs()[0], other)


def test_a_region_equal_to_its_replacement_costs_nothing():
    x = GREY.copy()
    x[:10] = 0.25  # upper half: mean colour is itself
    asked = []

    def model(pictures):
        asked.append(len(pictures))
        return pictures.mean(axis=(1, 2)) ** 2

    e = cx.BayesSHAP(model, cx.Image(cx.Grid(2, 2), fill="mean")).explain(x)
    assert e.exact
    assert e.mean[:2].tolist() == [0.0, 0.0]
    assert sum(asked) <= 5  # 2² coalitions and the repeated row


# -- explanations ------------------------------------------------------------------------------

WEIGHTS = np.random.default_rng(5).normal(size=(24, 30, 3)) / 2000


def curved(pictures):
    return np.tanh(np.einsum("nhwc,hwc->n", pictures.astype(float) / 255, 40 * WEIGHTS))


@pytest.mark.parametrize("layout", ["HWC", "CHW"])
def test_bayesshap_is_exact_on_few_regions(layout):
    x = COLOUR if layout == "HWC" else np.moveaxis(COLOUR, 2, 0)
    model = curved if layout == "HWC" else lambda p: curved(np.moveaxis(p, 1, 3))
    domain = cx.Image(cx.Grid(2, 3), fill=cx.Blur(5.0))
    masks = ((np.arange(64)[:, None] >> np.arange(6)) & 1).astype(bool)
    values = model(domain.at(x).coalition_inputs(masks)[0])
    e = cx.BayesSHAP(model, domain).explain(x)
    assert e.exact
    np.testing.assert_allclose(e.mean, brute_shapley(values), atol=1e-12)
    assert "switched off: the picture blurred by 5 pixels" in e.notes


@pytest.mark.parametrize("kind", [cx.BayesSHAP, cx.BayesLIME])
@pytest.mark.parametrize("posterior", ["linear", "gp"])
def test_both_explainers_and_posteriors(kind, posterior):
    explainer = kind(curved, cx.Image(segments=LABELS, fill=0))
    truth = explainer.explain(COLOUR, queries=2**12 + 1)
    assert truth.exact
    e = explainer.explain(COLOUR, queries=200, posterior=posterior)
    assert e.interval(0.999, simultaneous=True).covers(truth.mean).mean() >= 0.8
    assert np.abs(e.mean - truth.mean).mean() < 0.3 * np.abs(truth.mean).mean()
    assert "region" in str(e)
    assert e.units[0] == (
        "per part present" if kind is cx.BayesLIME else "change of the prediction"
    )


@pytest.mark.parametrize("kind", [cx.BayesSHAP, cx.BayesLIME])
def test_a_batch_of_sizes_and_types_equals_its_pictures(kind):
    pictures = [GREY, GREY[:12], COLOUR, (COLOUR / 255).astype(np.float32), GREY[::-1]]
    shapes = []

    def model(batch):
        shapes.append((batch.dtype, batch.shape[1:]))
        x = batch.astype(float) / (255 if batch.dtype == np.uint8 else 1)
        return np.tanh(x.reshape(len(x), -1)[:, ::7].sum(axis=1) / 50)

    domain = cx.Image(cx.Grid(3, 3), fill="mean")
    batch = kind(model, domain).explain_many(pictures, queries=60)
    assert set(shapes) == {(p.dtype, p.shape) for p in pictures}
    for x, e in zip(pictures, batch, strict=True):
        np.testing.assert_allclose(
            e.mean, kind(model, domain).explain(x, queries=60).mean, atol=1e-9
        )
    stacked = kind(model, domain).explain_many(np.stack([GREY, GREY[::-1]]), queries=60)
    assert stacked.mean.shape == (2, 9)
    np.testing.assert_allclose(stacked[1].mean, batch[4].mean, atol=1e-9)


@pytest.mark.parametrize("workers", ["threads", "processes"])
def test_workers(workers):
    explainer = cx.BayesSHAP(curved, cx.Image(segments=LABELS, fill=0))
    pictures = np.stack([COLOUR, COLOUR[::-1], COLOUR[:, ::-1]])
    one = explainer.explain_many(pictures, queries=60)
    two = explainer.explain_many(pictures, queries=60, n_jobs=2, workers=workers)
    np.testing.assert_allclose(one.mean, two.mean, atol=1e-9)


def test_verify_takes_pictures():
    explainer = cx.BayesSHAP(curved, cx.Image(cx.Grid(2, 4), fill=0))
    checked = explainer.verify(np.stack([COLOUR, COLOUR[::-1]]), n=2, queries=60)
    assert checked.exact
    assert checked.features == 16


@pytest.mark.parametrize("kind", [cx.BayesSHAP, cx.BayesLIME])
@pytest.mark.parametrize("fill", ["mean", cx.Noise(0.2, 3), (1, 2, 3)])
def test_json_keeps_picture_and_regions(kind, fill, tmp_path):
    def build():
        return kind(curved, cx.Image(segments=LABELS, fill=fill))

    e = build().explain(COLOUR, queries=60)
    text = e.to_json(tmp_path / "e.json")
    assert len(text) < 3 * COLOUR.nbytes + 20_000
    back = cx.Explanation.from_json(tmp_path / "e.json")
    picture, regions = seen(back.payload)
    assert np.array_equal(picture.native, COLOUR)
    assert np.array_equal(regions.labels, LABELS)
    more = build().refine(back, queries=120)
    np.testing.assert_array_equal(more.mean, build().explain(COLOUR, queries=120).mean)
    assert json.loads(text)["names"][3] == "region 3"


def test_refine_needs_the_same_fill_and_picture():
    e = cx.BayesSHAP(curved, cx.Image(segments=LABELS, fill=0)).explain(COLOUR, queries=60)
    other = cx.BayesSHAP(curved, cx.Image(segments=LABELS, fill="mean"))
    with pytest.raises(cx.InputError, match="another fill"):
        other.refine(e, queries=100)
    with pytest.raises(cx.InputError, match="another instance"):
        other.explain(COLOUR, queries=100, start=e)
    noise = cx.BayesSHAP(curved, cx.Image(segments=LABELS, fill=cx.Noise(0.25, 1)))
    e = noise.explain(COLOUR, queries=60)
    with pytest.raises(cx.InputError, match="another instance"):
        cx.BayesSHAP(curved, cx.Image(segments=LABELS, fill=cx.Noise(0.25, 2))).refine(
            e, queries=100
        )
    table = cx.BayesSHAP(lambda X: X[:, 0], np.eye(3)).explain([1.0, 2.0, 3.0])
    with pytest.raises(cx.InputError, match="not of an image"):
        other.refine(table, queries=100)


def test_refine_keeps_the_regions_of_the_explanation():
    e = cx.BayesSHAP(curved, cx.Image(segments=LABELS)).explain(COLOUR, queries=60)
    grid = cx.BayesSHAP(curved, cx.Image(segments=cx.Grid(5, 5)))
    assert grid.refine(e, queries=100).names == e.names


def test_calls_are_bounded_by_memory():
    x = np.random.default_rng(0).random((224, 224, 3)).astype(np.float32)
    sizes = []

    def model(pictures):
        sizes.append(pictures.nbytes)
        return pictures[:, ::16, ::16].mean(axis=(1, 2, 3))

    cx.BayesLIME(model, cx.Image(cx.Grid(4, 5))).explain(x, queries=400)
    assert CALL_BYTES / 8 < max(sizes) <= CALL_BYTES / 4  # room for the layers of a network


def test_same_pictures_as_lime_itself(need):
    lime_image = need("lime.lime_image")
    given_to = []

    def model(pictures):
        given_to.append(np.array(pictures))
        return np.zeros((len(pictures), 1))

    explainer = lime_image.LimeImageExplainer(random_state=0)
    replaced = np.zeros_like(COLOUR)
    data, _ = explainer.data_labels(COLOUR, replaced, LABELS, model, 30, batch_size=10)
    ours, _ = cx.Image(segments=LABELS, fill=0).at(COLOUR).coalition_inputs(data.astype(bool))
    assert np.array_equal(ours, np.concatenate(given_to))


# -- bad input ---------------------------------------------------------------------------------

NAN = GREY.copy()
NAN[3, 3] = np.nan
BAD_PICTURES = [
    (None, "needs an image"),
    (np.zeros((0, 10)), "empty"),
    (NAN, "1 values that are NaN"),
    (np.zeros((4, 10, 10, 3)), r"batch of 4 images.*x\[0\]"),
    (np.zeros(10), r"shape \(10,\)"),
    (np.zeros((3, 10, 3)), "either end could be.*channels='first'"),
    (np.zeros((10, 12, 7)), "no axis has 1, 3 or 4.*channels="),
    (GREY > 0.5, r"bool.*astype\(float\)"),
    (np.full((4, 4), "a"), "type <U1"),
    (7, "got int"),
    ("nowhere.png", "no image file 'nowhere.png'"),
]


@pytest.mark.parametrize(("x", "match"), BAD_PICTURES, ids=[m for _, m in BAD_PICTURES])
def test_bad_pictures_are_told_before_the_model_is_called(x, match):
    def never(pictures):
        raise AssertionError

    with pytest.raises(cx.InputError, match=match):
        cx.BayesSHAP(never, cx.Image(cx.Grid(2, 2))).explain(x)


BAD_DOMAINS = [
    ({"fill": 128.0}, GREY, r"128.*between 0 and 1"),
    ({"fill": 256}, COLOUR, r"256.*between 0 and 255"),
    ({"fill": -1}, COLOUR, r"-1.*between 0 and 255"),
    ({"fill": 0.5}, COLOUR, "not a whole number"),
    ({"fill": float("nan")}, GREY, "NaN"),
    ({"fill": (1, 0, 0)}, GREY, "3 channels, the image is a grey image"),
    ({"fill": (0, 0)}, COLOUR, "2 channels, the image is 3 channels"),
    ({"fill": COLOUR}, COLOUR[:20], r"\(24, 30, 3\).*\(20, 30, 3\)"),
    ({"fill": COLOUR}, COLOUR[:, :, 0], r"\(24, 30, 3\).*\(24, 30\)"),
    ({"fill": COLOUR.astype(float)}, COLOUR / 255, "between 0 and 1"),
    ({"segments": np.zeros((20, 16), dtype=int)}, GREY, "same label everywhere"),
    ({"segments": LABELS}, GREY, r"\(24, 30\) for an image of 20 × 16"),
    ({"segments": LABELS.astype(float)}, COLOUR, "whole numbers"),
    ({"segments": np.arange(24 * 300).reshape(24, 300)}, np.zeros((24, 300)), "7,200 regions"),
    ({"segments": cx.Grid(1, 1)}, GREY, "one region"),
    ({"segments": cx.Grid(30, 2)}, GREY, "more cells than an image of 20 × 16"),
    ({"segments": lambda image: image}, COLOUR, r"shape \(24, 30, 3\)"),
    ({"channels": "last"}, GREY, r"\(20, 16\); \(H, W, C\) is needed"),
    ({"channels": "none"}, COLOUR, r"\(H, W\) is needed"),
    ({"value_range": (0.0, 0.5)}, GREY, r"outside value_range=\(0.0, 0.5\)"),
]


@pytest.mark.parametrize(("options", "x", "match"), BAD_DOMAINS, ids=[m for *_, m in BAD_DOMAINS])
def test_bad_fills_and_segments_are_told_before_the_model_is_called(options, x, match):
    def never(pictures):
        raise AssertionError

    domain = cx.Image(**{"segments": cx.Grid(2, 2), **options})
    with pytest.raises(cx.InputError, match=match):
        cx.BayesSHAP(never, domain).explain(x)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: cx.Image(segments="slic"), r"segments='slic'.*cx\.Slic\(20\)"),
        (lambda: cx.Image(segments=20), "segments=20"),
        (lambda: cx.Image(fill="black"), "fill='black'.*'mean', 'inpaint'"),
        (lambda: cx.Image(fill=None), "fill=None"),
        (lambda: cx.Image(channels="middle"), "'first', 'last' or 'none'"),
        (lambda: cx.Image(value_range=(1, 0)), "low < high"),
        (lambda: cx.Slic(0), r"Slic\(n\).*0"),
        (lambda: cx.Slic(5, compactness=-1), "compactness.*-1"),
        (lambda: cx.Grid(2, 0), r"Grid\(columns\).*0"),
        (lambda: cx.Blur(0), r"Blur\(sigma\).*0"),
        (lambda: cx.Noise(-1), r"Noise\(scale\).*-1"),
        (lambda: cx.BayesSHAP(curved, cx.Image(), fill=0), r"fill= belongs.*cx\.Image\(fill="),
    ],
)
def test_bad_options_are_told_at_once(make, match):
    with pytest.raises(cx.InputError, match=match):
        make()


@pytest.mark.parametrize("x", [COLOUR, GREY, "a.png"])
def test_one_picture_is_not_a_batch(x):
    with pytest.raises(cx.InputError, match=r"explain\("):
        cx.BayesSHAP(curved, cx.Image()).explain_many(x)


def test_a_file_that_is_no_image(tmp_path, need):
    need("PIL")
    (tmp_path / "a.png").write_text("hello")
    with pytest.raises(cx.InputError, match="not an image that can be read"):
        cx.Image(cx.Grid(2, 2)).at(tmp_path / "a.png")


def test_pil_modes_that_cannot_be_mixed(need):
    image = need("PIL.Image")
    with pytest.raises(cx.InputError, match=r"mode 'P'.*convert\('RGB'\)"):
        cx.Image(cx.Grid(2, 2)).at(image.fromarray(COLOUR).convert("P"))


def test_a_large_picture_is_not_inpainted():
    with pytest.raises(cx.InputError, match=r"2000 × 2000.*cx\.Blur"):
        cx.Image(cx.Grid(2, 2), fill="inpaint").at(np.zeros((2000, 2000)))


def test_a_bad_picture_of_a_batch_is_recorded():
    batch = cx.BayesSHAP(lambda p: p.mean(axis=(1, 2)), cx.Image(cx.Grid(2, 2))).explain_many(
        [GREY, NAN, "nowhere.png"], on_error="record"
    )
    assert list(batch.errors) == [1, 2]
    assert len(batch.explained) == 1


@pytest.mark.parametrize(
    ("hidden", "code"),
    [
        ("skimage", "cx.Image().at(np.zeros((9, 9)))"),
        ("PIL", "cx.Image(cx.Grid(2, 2)).at('a.png')"),
    ],
)
def test_missing_extras_say_what_to_install(hidden, code):
    script = f"""
import sys, numpy as np
sys.modules[{hidden!r}] = None
import credex as cx
try:
    {code}
except cx.MissingExtraError as error:
    print(error)
"""
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert "pip install 'credex[image]'" in done.stdout
