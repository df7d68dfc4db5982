"""Tutorials of lime and shap, rewritten for data that are at hand; only the import differs.

A scenario of lime takes the package (lime, or credex.compat.lime) and a seed, and returns what
``explain_instance`` returned. A scenario of shap takes the package (shap, or credex.compat.shap).
"""

import re
from functools import cache
from types import SimpleNamespace

import numpy as np
from sklearn.datasets import (
    load_breast_cancer,
    load_diabetes,
    load_digits,
    load_iris,
    load_linnerud,
    load_sample_image,
    load_wine,
)
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import make_pipeline


@cache
def iris():
    data = load_iris()
    return data, RandomForestClassifier(25, random_state=0).fit(data.data, data.target)


@cache
def cancer():
    data = load_breast_cancer()
    return data, RandomForestClassifier(25, random_state=0).fit(data.data, data.target)


@cache
def diabetes():
    data = load_diabetes(scaled=False)
    return data, RandomForestRegressor(25, random_state=0).fit(data.data, data.target)


@cache
def wine():
    """Wines whose measurements are in three classes each: low, medium, high."""
    data = load_wine()
    cuts = np.percentile(data.data, [33, 67], axis=0)
    X = (data.data[:, None] > cuts).sum(axis=1).astype(float)
    return data, X, RandomForestClassifier(25, random_state=0).fit(X, data.target)


@cache
def sentences():
    """Sentences of the descriptions of scikit-learn's data sets, and which data set they are of."""
    sets = (load_iris, load_wine, load_breast_cancer, load_diabetes, load_linnerud)
    texts, labels = [], []
    for i, load in enumerate(sets):
        for text in re.split(r"[.:\n]\s+", load().DESCR):
            if len(text.split()) > 3:
                texts.append(" ".join(text.split()))
                labels.append(i)
    model = make_pipeline(TfidfVectorizer(lowercase=False), MultinomialNB(alpha=0.1))
    return texts, np.array(labels), model.fit(texts, labels)


@cache
def digits():
    """Digits of 8 × 8 pixels as colour pictures, as in lime's tutorial on MNIST."""
    data = load_digits()
    pictures = np.stack([data.images / 16.0] * 3, axis=3)
    flat = make_flat(pictures)
    model = RandomForestClassifier(25, random_state=0).fit(flat, data.target)
    return pictures, data.target, lambda pictures: model.predict_proba(make_flat(pictures))


def make_flat(pictures):
    return np.asarray(pictures)[..., 0].reshape(len(pictures), -1)


# -- lime ----------------------------------------------------------------------------------------


def continuous(lime, seed):
    """Continuous features: which iris is it, and why?"""
    data, model = iris()
    explainer = lime.lime_tabular.LimeTabularExplainer(
        data.data,
        feature_names=data.feature_names,
        class_names=data.target_names,
        discretize_continuous=True,
        random_state=seed,
    )
    return explainer.explain_instance(
        data.data[71], model.predict_proba, num_features=4, top_labels=1
    )


def categorical(lime, seed):
    """Categorical features with names, as in the tutorial on mushrooms."""
    data, X, model = wine()
    explainer = lime.lime_tabular.LimeTabularExplainer(
        X,
        class_names=list(data.target_names),
        feature_names=data.feature_names,
        categorical_features=range(X.shape[1]),
        categorical_names={j: ["low", "medium", "high"] for j in range(X.shape[1])},
        kernel_width=3,
        verbose=False,
        random_state=seed,
    )
    return explainer.explain_instance(X[80], model.predict_proba, num_features=5)


def mixed(lime, seed):
    """Numbers and categories together, of several classes at once."""
    data, _ = diabetes()
    classes = RandomForestClassifier(25, random_state=0).fit(data.data, data.target > 140)
    explainer = lime.lime_tabular.LimeTabularExplainer(
        data.data,
        feature_names=data.feature_names,
        class_names=["mild", "severe"],
        categorical_features=[1],
        categorical_names={1: ["", "female", "male"]},
        kernel_width=3,
        random_state=seed,
    )
    return explainer.explain_instance(
        data.data[12], classes.predict_proba, labels=(0, 1), num_features=10
    )


def regression(lime, seed):
    """Regression: columns with few values are categories."""
    data, model = diabetes()
    few = np.argwhere([len(set(column)) <= 10 for column in data.data.T]).flatten()
    explainer = lime.lime_tabular.LimeTabularExplainer(
        data.data,
        feature_names=data.feature_names,
        class_names=["progression"],
        categorical_features=few,
        verbose=False,
        mode="regression",
        random_state=seed,
    )
    return explainer.explain_instance(data.data[25], model.predict, num_features=10)


def deciles(lime, seed):
    """Deciles, and lasso to choose features."""
    data, model = cancer()
    explainer = lime.lime_tabular.LimeTabularExplainer(
        data.data,
        feature_names=data.feature_names,
        class_names=data.target_names,
        discretizer="decile",
        feature_selection="lasso_path",
        random_state=seed,
    )
    return explainer.explain_instance(data.data[10], model.predict_proba, num_features=8)


def entropy(lime, seed):
    """Bins by a tree that knows the labels."""
    data, model = iris()
    explainer = lime.lime_tabular.LimeTabularExplainer(
        data.data,
        training_labels=data.target,
        feature_names=data.feature_names,
        discretizer="entropy",
        random_state=seed,
    )
    return explainer.explain_instance(data.data[110], model.predict_proba, labels=(1, 2))


def not_binned(lime, seed):
    """Numbers as they are, around the instance."""
    data, model = diabetes()
    explainer = lime.lime_tabular.LimeTabularExplainer(
        data.data,
        mode="regression",
        feature_names=data.feature_names,
        discretize_continuous=False,
        sample_around_instance=True,
        random_state=seed,
    )
    return explainer.explain_instance(data.data[3], model.predict, num_features=6)


def own_kernel(lime, seed):
    """A kernel of one's own on another distance, and all features."""
    data, model = iris()
    explainer = lime.lime_tabular.LimeTabularExplainer(
        data.data,
        kernel=lambda d, kernel_width: np.exp(-d / kernel_width),
        kernel_width=2.0,
        feature_selection="none",
        random_state=seed,
    )
    return explainer.explain_instance(
        data.data[60], model.predict_proba, distance_metric="cityblock", num_samples=3000
    )


def two_classes(lime, seed):
    """Texts, basic usage: bag of words."""
    texts, labels, model = sentences()
    text = max((t for t, y in zip(texts, labels, strict=True) if y == 2), key=len)
    text = " ".join(text.split()[:40])
    explainer = lime.lime_text.LimeTextExplainer(
        class_names=["iris", "wine", "cancer", "diabetes", "linnerud"], random_state=seed
    )
    return explainer.explain_instance(
        text, model.predict_proba, labels=(1, 2), num_features=6, num_samples=3000
    )


def many_classes(lime, seed):
    """Texts of many classes: the most likely ones."""
    texts, labels, model = sentences()
    text = max((t for t, y in zip(texts, labels, strict=True) if y == 1), key=len)
    explainer = lime.lime_text.LimeTextExplainer(random_state=seed)
    return explainer.explain_instance(
        text, model.predict_proba, num_features=50, top_labels=2, num_samples=3000
    )


def word_order(lime, seed):
    """A model that reads the order of words: positions are features."""
    text = "the cat sat on the mat and the dog sat by the cat with the mat and a very old hat"

    def model(texts):
        found = [[t.find("cat") if "cat" in t else 40, t.count("sat"), len(t)] for t in texts]
        p = 1 / (1 + np.exp(0.1 * (np.array(found) @ [1.0, -9.0, 0.2] - 10)))
        return np.column_stack([1 - p, p])

    explainer = lime.lime_text.LimeTextExplainer(bow=False, random_state=seed)
    return explainer.explain_instance(text, model, num_features=30, num_samples=3000)


def short_text(lime, seed):
    """A text so short that every text with words removed can be asked."""
    _, _, model = sentences()
    explainer = lime.lime_text.LimeTextExplainer(random_state=seed)
    return explainer.explain_instance(
        "number of instances of wine classes", model.predict_proba, num_features=6
    )


def handwriting(lime, seed):
    """Handwritten digits, a forest, and quickshift."""
    pictures, _, model = digits()
    segmenter = lime.wrappers.scikit_image.SegmentationAlgorithm(
        "quickshift", kernel_size=1, max_dist=2, ratio=0.2
    )
    explainer = lime.lime_image.LimeImageExplainer(random_state=seed, verbose=False)
    return explainer.explain_instance(
        pictures[36],
        classifier_fn=model,
        top_labels=3,
        hide_color=0,
        num_samples=1500,
        segmentation_fn=segmenter,
        batch_size=500,
    )


def photograph(lime, seed):
    """A photograph in lime's default regions, painted over with their mean colours."""
    flower = load_sample_image("flower.jpg")[120:360:3, 180:480:3]

    def model(pictures):
        x = np.asarray(pictures) / 255.0
        red = (x[..., 0] - x[..., 1]).clip(0).mean(axis=(1, 2))
        z = np.column_stack([4 * red, 3 * x[:, 20:60, 20:60].std(axis=(1, 2, 3)), 0.5 + 0 * red])
        return np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)

    explainer = lime.lime_image.LimeImageExplainer(random_state=seed)
    return explainer.explain_instance(flower, model, top_labels=3, num_samples=600, batch_size=100)


LIME = [
    *(continuous, categorical, mixed, regression, deciles, entropy, not_binned, own_kernel),
    *(two_classes, many_classes, word_order, short_text, handwriting, photograph),
]


# -- shap ----------------------------------------------------------------------------------------


def result(explainer, X, values):
    return SimpleNamespace(explainer=explainer, X=X, values=values)


def probabilities(shap):
    """A support vector machine on iris, in log-odds."""
    from sklearn.model_selection import train_test_split
    from sklearn.svm import SVC

    X, y = load_iris(return_X_y=True, as_frame=True)
    train, test, labels, _ = train_test_split(X, y, test_size=0.2, random_state=0)
    svm = SVC(kernel="rbf", probability=True, random_state=0).fit(train.to_numpy(), labels)
    explainer = shap.KernelExplainer(svm.predict_proba, train, link="logit")
    return result(explainer, test[:5], explainer.shap_values(test[:5], nsamples=100))


def neighbours(shap):
    """k nearest neighbours with a background of k-means, as in the tutorial on census data."""
    from sklearn.neighbors import KNeighborsClassifier

    data = load_breast_cancer()
    scale = data.data.std(axis=0)
    knn = KNeighborsClassifier(15).fit(data.data / scale, data.target)
    background = shap.kmeans(data.data, 8)
    explainer = shap.KernelExplainer(lambda x: knn.predict_proba(x / scale)[:, 1], background)
    X = data.data[:3]
    return result(explainer, X, explainer.shap_values(X, nsamples=600, l1_reg=False))


def disease(shap):
    """Regression by a network, a background of k-means, a whole frame of rows."""
    from sklearn.neural_network import MLPRegressor
    from sklearn.preprocessing import StandardScaler

    X, y = load_diabetes(return_X_y=True, as_frame=True)
    network = make_pipeline(
        StandardScaler(),
        MLPRegressor(hidden_layer_sizes=(20,), solver="lbfgs", max_iter=300, random_state=0),
    ).fit(X.to_numpy(), y)
    explainer = shap.KernelExplainer(network.predict, shap.kmeans(X, 10))
    rows = X.iloc[:4]
    return result(explainer, rows, explainer.shap_values(rows, l1_reg=False))


def one_reference(shap):
    """One row, one reference value for each feature, and twenty features."""
    rng = np.random.default_rng(0)
    weights = rng.normal(size=20)
    explainer = shap.KernelExplainer(
        lambda x: np.tanh(x @ weights / 4) + x[:, 0] * x[:, 1], np.zeros((1, 20))
    )
    x = rng.normal(size=20)
    return result(explainer, x, explainer.shap_values(x, nsamples=400, l1_reg=False))


def superpixels(shap):
    """Regions of a picture are features: a function of masks, several classes."""
    pictures, target, model = digits()
    x = pictures[np.flatnonzero(target == 3)[1]]
    regions = np.arange(8)[:, None] // 2 * 4 + np.arange(8) // 2

    def masked(z):
        on = np.asarray(z)[:, regions] > 0.5
        return model(np.where(on[..., None], x, 0.0))

    explainer = shap.KernelExplainer(masked, np.zeros((1, 16)))
    ones = np.ones((1, 16))
    return result(explainer, ones, explainer.shap_values(ones, nsamples=1000, l1_reg=False))


def logic(shap):
    """AND, OR and XOR of features: few coalitions, exact values."""

    def model(x):
        a, b, c = (x[:, j] > 0.5 for j in range(3))
        return 1.0 * (a & b) + 2.0 * (b | c) + 3.0 * (a ^ c)

    explainer = shap.KernelExplainer(model, np.zeros((1, 4)))
    return result(explainer, np.ones((2, 4)), explainer.shap_values(np.ones((2, 4))))


def called(shap):
    """The explainer as a function: what shap's plots take."""
    X, y = load_wine(return_X_y=True, as_frame=True)
    forest = RandomForestClassifier(30, random_state=0).fit(X.to_numpy()[:, :6], y)
    explainer = shap.KernelExplainer(forest.predict_proba, X.iloc[::9, :6])
    found = explainer(X.iloc[:6, :6], silent=True)
    out = result(explainer, X.iloc[:6, :6], found.values)
    out.explanation = found
    return out


SHAP = [probabilities, neighbours, disease, one_reference, superpixels, logic, called]
