"""lime's tutorials on both packages: the same shapes and labels, values within the intervals.

The tolerance. lime's answer has a sampling error, which is measured: its standard deviation over
`SEEDS` seeds, pooled over the features of a label, because few seeds say little about one of them.
credex states its own in its intervals. The difference of the two means is compared with both:
|difference| ≤ 4·√(credex's sd² + lime's sd² / SEEDS), which a normal error exceeds once in 16,000
comparisons; there are about 200. Where credex's answer is exact, it is lime's in the limit of many
samples, where the ridge has no effect; at lime's num_samples it takes about 1/(1 + n·w·p(1−p)) off
a coefficient (w: mean weight, p: share of masks with the feature), which is allowed for.

What it catches: masks of fair coins instead of lime's fail `two_classes`, `many_classes` and
`word_order`. Training values instead of lime's normals cut to bins are too close to be seen here;
`test_values_in_a_bin_are_distributed_as_lime_draws_them` sees them.
"""

import re
import warnings
from functools import cache

import matplotlib as mpl
import numpy as np
import pytest

mpl.use("Agg")

from matplotlib import pyplot as plt

from credex.compat import lime as ours
from credex.compat.lime.table import bins_of
from tests.compat import scenarios
from tests.needs import need

theirs = need("lime")
for module in ("lime_tabular", "lime_text", "lime_image", "wrappers.scikit_image"):
    need(f"lime.{module}")

SEEDS = 4
SIGMAS = 4.0
RIDGE = 0.02
"""Share of a coefficient that lime's ridge takes off where credex's answer is exact."""


def vector(pairs, d):
    out = np.full(d, np.nan)
    for i, value in pairs:
        out[i] = value
    return out


@cache
def runs(scenario):
    """What credex found, and what lime found with each seed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # lime's own
        peers = [scenario(theirs, seed) for seed in range(SEEDS)]
    return scenario(ours, 0), peers


@cache
def differences(scenario):
    """|credex − lime| of all values, both errors together, and what the ridge takes off."""
    found, peers = runs(scenario)
    e, out = found.explanation, []
    for j, label in enumerate(found._output):
        d, i = len(e.names), e.belief.interval(0.95)
        mean = vector(found.local_exp[label], d)
        lime = np.array([vector(p.local_exp[label], d) for p in peers])
        common = np.isfinite(mean) & np.isfinite(lime).all(axis=0)
        assert common.sum() >= min(2, len(found.local_exp[label]))
        sd = np.sqrt(lime[:, common].var(axis=0, ddof=1).mean() / SEEDS)
        error = np.hypot((i.upper - i.lower)[common, j] / 3.92, sd)
        difference = np.abs(mean[common] - lime[:, common].mean(axis=0))
        ridge = RIDGE * np.abs(mean[common]).max() if e.exact else 0.0
        out.append([difference, error, np.full(len(error), ridge)])
    return np.concatenate(out, axis=1)


@pytest.fixture(params=scenarios.LIME, ids=lambda s: s.__name__)
def both(request):
    return runs(request.param)


def test_results_have_the_same_shape(both):
    found, peers = both
    peer = peers[0]
    assert {int(k) for k in found.local_exp} == {int(k) for k in peer.local_exp}
    for label, pairs in peer.local_exp.items():
        assert len(found.local_exp[label]) == len(pairs)
        sizes = [abs(value) for _, value in found.local_exp[label]]
        assert sizes == sorted(sizes, reverse=True)
        assert isinstance(found.intercept[label], float)
    assert np.shape(found.local_pred) == np.shape(peer.local_pred)
    assert isinstance(found.score, float)
    if getattr(peer, "top_labels", None):
        assert found.top_labels == [int(label) for label in peer.top_labels]
    assert found.explanation.n_model_rows > 0


@pytest.mark.parametrize("scenario", scenarios.LIME, ids=lambda s: s.__name__)
def test_values_agree(scenario):
    difference, error, ridge = differences(scenario)
    assert np.all(difference <= SIGMAS * error + ridge), difference / error


def test_values_of_all_scenarios_agree_within_95_percent_intervals():
    difference, error, ridge = np.concatenate([differences(s) for s in scenarios.LIME], axis=1)
    assert len(difference) > 150
    assert np.mean(difference <= 1.96 * error + ridge) > 0.9


def test_conditions_are_written_as_lime_writes_them(both):
    found, peers = both
    if not hasattr(found, "as_list"):
        return  # images
    for label in found._output:
        listed = zip(found.local_exp[label], found.as_list(label), strict=True)
        own = {i: name for (i, _), (name, _) in listed}
        known = {}
        for p in peers:
            listed = zip(p.local_exp[label], p.as_list(label), strict=True)
            known |= {int(i): name for (i, _), (name, _) in listed}
        assert {i: known[i] for i in own if i in known} == {i: own[i] for i in own if i in known}
        assert len(own) == len(peers[0].as_list(label))


def test_binned_conditions_look_like_this():
    found = scenarios.continuous(ours, 0)
    names = [name for name, _ in found.as_list(label=found.top_labels[0])]
    assert all(re.search(r"(^\d+\.\d\d < )?.* (<=|>) \d+\.\d\d$", name) for name in names), names
    found = scenarios.categorical(ours, 0)
    assert all(re.search(r"=(low|medium|high)$", name) for name, _ in found.as_list())


@pytest.mark.parametrize("name", ["quartile", "decile", "entropy"])
def test_values_in_a_bin_are_distributed_as_lime_draws_them(name):
    """Largest gap of the two distribution functions: 0.043 would be exceeded once in 10⁴ bins."""
    from scipy.stats import ks_2samp

    discretize = need("lime.discretize")
    data, _ = scenarios.iris()
    kind = getattr(discretize, f"{name.capitalize()}Discretizer")
    lime = kind(data.data, [], data.feature_names, labels=data.target, random_state=0)
    ours_by_name = bins_of(data.data, range(4), name, data.target, 0)
    gaps = []
    for source in (ours_by_name, bins_of(data.data, range(4), lime, None, 0)):
        for j, bins in source.items():
            assert [bins.label("x", v) for v in data.data[:, j]] == [
                lime.names[j][b].replace(data.feature_names[j], "x")
                for b in lime.lambdas[j](data.data[:, j])
            ]
            for b in range(len(bins.low)):
                if bins.low[b] == bins.high[b] or bins.sd[b] < 1e-9:
                    continue
                drawn = lime.get_undiscretize_values(j, np.full(4000, b))
                gaps.append(ks_2samp(drawn, bins.spread(np.full(4000, b)).copy()).statistic)
    assert len(gaps) >= 16
    assert max(gaps) < 0.043
    own = data.data[data.data[:, 0] <= 5.1, 0]  # the values themselves are another distribution
    first = ours_by_name[0]
    assert ks_2samp(first.spread(np.zeros(4000, dtype=int)), own).statistic > 0.06


def test_the_other_fields_of_a_classification():
    found, peer = scenarios.continuous(ours, 0), scenarios.continuous(theirs, 0)
    np.testing.assert_allclose(found.predict_proba, peer.predict_proba)
    assert list(found.class_names) == list(peer.class_names)
    assert found.available_labels() == [int(label) for label in peer.available_labels()]
    assert found.mode == peer.mode
    assert found.explanation.outputs == ("versicolor",)


def test_the_other_fields_of_a_regression():
    found, peer = scenarios.regression(ours, 0), scenarios.regression(theirs, 0)
    assert found.predicted_value == pytest.approx(peer.predicted_value)
    assert found.min_value == pytest.approx(peer.min_value, abs=15)
    assert found.max_value == pytest.approx(peer.max_value, abs=15)
    assert found.class_names == peer.class_names
    assert found.as_list() == found.as_list(label=0)  # lime ignores the label
    assert found.as_map()[0] == [(i, -value) for i, value in found.as_map()[1]]
    with pytest.raises(NotImplementedError):
        found.available_labels()


def test_positions_of_words():
    found, peer = scenarios.word_order(ours, 0), scenarios.word_order(theirs, 0)
    assert {name for name, _ in found.as_list(positions=True)} == {
        name for name, _ in peer.as_list(positions=True)
    }


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"positive_only": False},
        {"positive_only": False, "negative_only": True},
        {"hide_rest": True, "num_features": 2, "min_weight": 0.01},
        {"positive_only": False, "num_features": 3, "min_weight": 0.01},
    ],
)
def test_pictures_and_masks(options):
    found, peer = scenarios.handwriting(ours, 0), scenarios.handwriting(theirs, 0)
    np.testing.assert_array_equal(found.segments, peer.segments)
    label = found.top_labels[0]
    peer.local_exp[label] = found.local_exp[label]  # then the pictures must be equal
    for a, b in zip(
        found.get_image_and_mask(label, **options),
        peer.get_image_and_mask(label, **options),
        strict=True,
    ):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


def test_submodular_pick_takes_our_explainer():
    pick = need("lime.submodular_pick")
    data, model = scenarios.iris()
    explainer = ours.LimeTabularExplainer(data.data, feature_names=data.feature_names)
    found = pick.SubmodularPick(
        explainer,
        data.data[::15],
        model.predict_proba,
        method="full",
        num_features=2,
        num_exps_desired=3,
        top_labels=1,
    )
    assert len(found.sp_explanations) == 3
    assert len({id(e) for e in found.sp_explanations}) == 3


def test_pages_and_figures(tmp_path, monkeypatch):
    found = scenarios.two_classes(ours, 0)
    figure = found.as_pyplot_figure(label=2)
    assert isinstance(figure, plt.Figure)
    figure.canvas.draw()
    plt.close("all")
    path = tmp_path / "oi.html"
    found.save_to_file(path)
    whole = path.read_text(encoding="utf-8")
    assert whole.startswith("<!doctype html>")
    assert whole.count("<table>") == 2
    assert "BayesLIME: wine" in whole
    assert "credex-text" in whole
    one = found.as_html(labels=(2,), text=False)
    assert one.count("<table>") == 1
    assert "credex-text" not in one
    shown = []
    display = need("IPython.display")
    monkeypatch.setattr(display, "display", shown.append)
    found.show_in_notebook(labels=(2,), text=True)
    assert "<table>" in shown[0].data
    with pytest.warns(UserWarning, match="predict_proba.*always has the prediction"):
        found.show_in_notebook(predict_proba=False)
    with pytest.raises(ValueError, match="label 4 was not explained; explained are: 1, 2"):
        found.as_list(label=4)
    with pytest.raises(ValueError, match="no option 'tekst'"):
        found.as_html(tekst=True)
    table = scenarios.continuous(ours, 0)
    table.show_in_notebook(show_table=True, show_all=False)
    with pytest.warns(UserWarning, match="show_all"):
        table.show_in_notebook(show_all=True)


def test_verbose_prints_what_lime_prints(capsys):
    data, model = scenarios.iris()
    lines = []
    for package in (theirs, ours):
        explainer = package.lime_tabular.LimeTabularExplainer(
            data.data, verbose=True, random_state=0
        )
        explainer.explain_instance(data.data[0], model.predict_proba)
        lines.append([line.split()[0] for line in capsys.readouterr().out.splitlines()])
    assert lines[0] == lines[1] == ["Intercept", "Prediction_local", "Right:"]
