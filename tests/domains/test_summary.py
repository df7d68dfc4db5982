"""Few rows that stand for many: k-means against scikit-learn's, and against known clusters."""

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.datasets import load_breast_cancer, load_diabetes

import credex as cx
from credex.domains.tabular.summary import _centroids, _nearest

RNG = np.random.default_rng(0)
CENTRES = np.array([[0.0, 0.0], [20.0, 0.0], [0.0, 20.0]])
GROUPS = np.repeat([0, 1, 2], [50, 30, 20])
POINTS = CENTRES[GROUPS] + RNG.normal(size=(100, 2))


def spread(points, weights, centres):
    distance = points - centres[_nearest(points, centres)]
    return float(weights @ np.square(distance).sum(axis=1))


@pytest.mark.parametrize("load", [load_diabetes, load_breast_cancer])
@pytest.mark.parametrize("k", [5, 50])
def test_clusters_are_as_tight_as_those_of_scikit_learn(load, k):
    points = load().data
    points = (points - points.mean(axis=0)) / points.std(axis=0)
    weights = RNG.dirichlet(np.ones(len(points)))
    peer = KMeans(k, n_init=1, max_iter=30, random_state=0)
    theirs = peer.fit(points, sample_weight=weights).cluster_centers_
    ours = _centroids(points, weights, k)
    assert spread(points, weights, ours) < 1.06 * spread(points, weights, theirs)


def test_known_clusters_are_found_and_keep_their_weight():
    weights = np.where(GROUPS == 2, 4.0, 1.0)
    found = _centroids(POINTS, weights, 3)
    for i, centre in enumerate(CENTRES):
        nearest = found[np.square(found - centre).sum(axis=1).argmin()]
        np.testing.assert_allclose(nearest, POINTS[i == GROUPS].mean(axis=0), atol=1e-9)
    here = cx.Tabular(POINTS, background=3, weights=weights).at(POINTS[0])
    np.testing.assert_allclose(np.sort(here.background_weights), [30 / 160, 50 / 160, 80 / 160])


def test_more_clusters_than_different_rows():
    points = np.repeat(CENTRES, 4, axis=0)
    assert len(np.unique(_centroids(points, np.ones(12), 9), axis=0)) == 3


def test_rows_without_weight_are_not_chosen():
    weights = np.where(GROUPS == 1, 0.0, 1.0)
    found = _centroids(POINTS, weights, 2)
    assert found[:, 0].max() < 5.0
