"""Networks of torch and ONNX as functions of rows."""

import pickle
import sys
import threading

import numpy as np
import pytest

import credex as cx

X = np.random.default_rng(0).random((11, 4)).astype(np.float32)
W = np.random.default_rng(1).normal(size=(4, 3)).astype(np.float32)
PICTURE = np.random.default_rng(2).random((1, 12, 12)).astype(np.float32)


def softmax(y):
    e = np.exp(y - y.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


# -- torch -------------------------------------------------------------------------------------


@pytest.fixture
def torch(need):
    found = need("torch")
    found.set_num_threads(1)
    return found


@pytest.fixture
def linear(torch):
    layer = torch.nn.Linear(4, 3, bias=False)
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(W.T))
    return layer


def test_a_module_answers_as_numpy(torch, linear):
    y = cx.from_torch(linear)(X)
    assert isinstance(y, np.ndarray)
    np.testing.assert_allclose(y, X @ W, rtol=1e-5)


@pytest.mark.parametrize("batch_size", [1, 4, 11, 100])
def test_rows_are_given_in_batches(torch, batch_size):
    sizes = []

    class Sum(torch.nn.Module):
        def forward(self, x):
            sizes.append(len(x))
            assert not torch.is_grad_enabled()
            return x.sum(dim=1)

    y = cx.from_torch(Sum(), batch_size=batch_size)(X)
    np.testing.assert_allclose(y, X.sum(axis=1), rtol=1e-5)
    assert sizes == [min(batch_size, 11 - s) for s in range(0, 11, batch_size)]


def test_modes_are_restored_module_by_module(torch):
    frozen, dropout = torch.nn.BatchNorm1d(4), torch.nn.Dropout(0.5)
    net = torch.nn.Sequential(frozen, dropout, torch.nn.Linear(4, 2))
    net.train()
    frozen.eval()  # as in fine-tuning
    before = frozen.running_mean.clone()
    model = cx.from_torch(net)
    assert np.array_equal(model(X), model(X))  # no dropout
    assert net.training
    assert dropout.training
    assert not frozen.training
    assert torch.equal(frozen.running_mean, before)


def test_modes_are_restored_after_an_error(torch):
    class Bad(torch.nn.Module):
        def forward(self, x):
            raise RuntimeError("no")

    net = Bad().train()
    with pytest.raises(RuntimeError):
        cx.from_torch(net)(X)
    assert net.training


def test_threads_never_see_training_mode(torch):
    seen = []

    class Slow(torch.nn.Module):
        def forward(self, x):
            seen.append(self.training)
            threading.Event().wait(0.002)
            seen.append(self.training)
            return x.sum(dim=1)

    net = Slow().train()
    model = cx.from_torch(net, batch_size=2)
    workers = [threading.Thread(target=model, args=(X,)) for _ in range(4)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert len(seen) == 48
    assert not any(seen)
    assert net.training


def test_activation(torch, linear):
    np.testing.assert_allclose(
        cx.from_torch(linear, activation="softmax")(X), softmax(X @ W), rtol=1e-5
    )
    np.testing.assert_allclose(
        cx.from_torch(linear, activation="sigmoid")(X), 1 / (1 + np.exp(-X @ W)), rtol=1e-5
    )
    np.testing.assert_allclose(
        cx.from_torch(linear, activation=lambda y: y[:, :1] * 2)(X), (X @ W)[:, :1] * 2, rtol=1e-5
    )


def test_transform_and_prepare(torch, linear):
    by_row = cx.from_torch(linear, transform=lambda row: torch.from_numpy(row) * 2)(X)
    whole = cx.from_torch(linear, prepare=lambda rows: rows * 2)(X)
    np.testing.assert_allclose(by_row, 2 * X @ W, rtol=1e-5)
    np.testing.assert_allclose(whole, by_row, rtol=1e-6)
    arrays = cx.from_torch(linear, transform=lambda row: row * 2)(X)
    np.testing.assert_allclose(arrays, by_row, rtol=1e-6)


def test_floats_take_the_type_of_the_module(torch, linear):
    assert cx.from_torch(linear.double())(X).dtype == np.float64
    assert cx.from_torch(linear)(np.ones((2, 4), dtype=np.uint8)).shape == (2, 3)


def test_logits_of_an_object(torch, linear):
    class Wrapped(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = linear

        def forward(self, x):
            return type("Output", (), {"logits": self.inner(x)})()

    np.testing.assert_allclose(cx.from_torch(Wrapped())(X), X @ W, rtol=1e-5)


def test_a_tuple_is_not_guessed_at(torch):
    class Pair(torch.nn.Module):
        def forward(self, x):
            return x, x

    with pytest.raises(cx.ModelOutputError, match="a tuple, not a tensor"):
        cx.BayesSHAP(cx.from_torch(Pair()), X).explain(X[0])


def test_classes_name_the_outputs(torch, linear):
    model = cx.from_torch(linear, activation="softmax", classes=["cat", "dog", "fox"])
    e = cx.BayesSHAP(model, X, target="dog").explain(X[0])
    assert e.outputs == ("dog",)
    assert e.prediction == pytest.approx(softmax(X[:1] @ W)[0, 1], rel=1e-5)


def test_tables_work_too(torch, linear):
    e = cx.BayesSHAP(cx.from_torch(linear), X, target=0).explain(X[3])
    np.testing.assert_allclose(e.mean, (X[3] - X.mean(axis=0)) * W[:, 0], atol=1e-6)


def test_an_image_through_a_convolution(torch):
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Conv2d(1, 2, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(200, 4)
    )
    model = cx.from_torch(net, activation="softmax")
    e = cx.BayesSHAP(model, cx.Image(cx.Grid(2, 3), fill=0.5), target=1).explain(PICTURE)
    with torch.no_grad():
        full = net(torch.from_numpy(PICTURE)[None]).softmax(dim=1)[0, 1]
    assert e.exact
    assert e.prediction == pytest.approx(float(full), abs=1e-6)


def test_a_torch_model_pickles(torch, linear):
    model = pickle.loads(pickle.dumps(cx.from_torch(linear, activation="softmax")))
    np.testing.assert_allclose(model(X), softmax(X @ W), rtol=1e-5)
    batch = cx.BayesSHAP(model, X, target=0).explain_many(X[:4], n_jobs=2, workers="processes")
    assert batch.workers == "processes (2)"


def test_a_device_is_named(torch, linear):
    np.testing.assert_allclose(cx.from_torch(linear, device="cpu")(X), X @ W, rtol=1e-5)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"batch_size": 0}, "batch_size.*0"),
        ({"activation": "relu"}, "activation.*'relu'"),
        ({"transform": 3}, "transform must be a function"),
        ({"transform": np.sin, "prepare": np.sin}, "not both"),
    ],
)
def test_bad_options_of_from_torch(torch, linear, options, match):
    with pytest.raises(cx.InputError, match=match):
        cx.from_torch(linear, **options)


def test_from_torch_takes_a_module(torch):
    with pytest.raises(cx.InputError, match=r"torch\.nn\.Module; got function"):
        cx.from_torch(softmax)


class Rounds:
    """Answers a little differently in another batch size, as networks do."""

    def __init__(self, dtype, size):
        self.dtype, self.size = dtype, size

    def __call__(self, masks):
        y = 0.2 + masks @ np.linspace(0, 0.1, masks.shape[1])
        return (y * (1 + self.size * (len(masks) % 7))).astype(self.dtype)


@pytest.mark.parametrize("kind", [cx.BayesSHAP, cx.BayesLIME])
@pytest.mark.parametrize("link", ["identity", "logit"])
def test_rounding_of_single_precision_is_not_randomness(kind, link):
    explainer = kind(Rounds(np.float32, 2e-7), cx.Masks(12), link=link)
    assert 59 <= explainer.explain(queries=60).n_queries <= 60


@pytest.mark.parametrize("kind", [cx.BayesSHAP, cx.BayesLIME])
@pytest.mark.parametrize(("dtype", "size"), [(np.float32, 1e-3), (np.float64, 1e-3)])
def test_a_random_model_is_still_told(kind, dtype, size):
    with pytest.raises(cx.RandomModelError, match=r"for the same row\. If it is random"):
        kind(Rounds(dtype, size), cx.Masks(12)).explain(queries=60)


@pytest.mark.parametrize("kind", [cx.BayesSHAP, cx.BayesLIME])
def test_single_precision_cast_to_double_is_hinted_at(kind):
    with pytest.raises(cx.RandomModelError, match="return float32"):
        kind(Rounds(np.float64, 2e-7), cx.Masks(12)).explain(queries=60)


# -- ONNX --------------------------------------------------------------------------------------


@pytest.fixture
def onnx_file(need, tmp_path):
    """Write a model y = x·W (or of an image) with a given batch size and input type."""
    onnx = need("onnx")
    need("onnxruntime")
    helper, kinds = onnx.helper, onnx.TensorProto

    def write(batch="n", kind="FLOAT", outputs=1, inputs=1):
        nodes = []
        start = "x"
        if kind != "FLOAT":
            nodes.append(helper.make_node("Cast", ["x"], ["f"], to=kinds.FLOAT))
            start = "f"
        nodes.append(helper.make_node("MatMul", [start, "w"], ["y"]))
        if outputs > 1:
            nodes.append(helper.make_node("Neg", ["y"], ["minus"]))
        said = [helper.make_tensor_value_info("y", kinds.FLOAT, [batch, 3])]
        said += [helper.make_tensor_value_info("minus", kinds.FLOAT, [batch, 3])][: outputs - 1]
        given = [helper.make_tensor_value_info("x", getattr(kinds, kind), [batch, 4])]
        given += [helper.make_tensor_value_info("z", kinds.FLOAT, [1])][: inputs - 1]
        graph = helper.make_graph(
            nodes, "g", given, said, [onnx.numpy_helper.from_array(W, name="w")]
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
        model.ir_version = 9
        path = tmp_path / f"m-{batch}-{kind}-{outputs}-{inputs}.onnx"
        onnx.save(model, path)
        return path

    return write


@pytest.mark.parametrize("batch", ["n", 1, 4, 16])
def test_any_batch_size_of_the_model_works(onnx_file, batch):
    model = cx.from_onnx(onnx_file(batch), threads=1)
    for n in (1, 4, 11):
        np.testing.assert_allclose(model(X[:n]), X[:n] @ W, rtol=1e-4)
    assert model.fixed == (None if batch == "n" else batch)


def test_an_explanation_does_not_notice_the_batch_size(onnx_file):
    free = cx.BayesSHAP(cx.from_onnx(onnx_file("n"), activation="softmax"), X, target=1)
    fixed = cx.BayesSHAP(cx.from_onnx(onnx_file(4), activation="softmax"), X, target=1)
    np.testing.assert_allclose(free.explain(X[0]).mean, fixed.explain(X[0]).mean, atol=1e-6)


def test_types_are_cast_only_where_nothing_is_lost(onnx_file):
    floats = cx.from_onnx(onnx_file())
    np.testing.assert_allclose(floats(X.astype(np.float64)), X @ W, rtol=1e-4)
    whole = np.arange(8, dtype=np.uint8).reshape(2, 4)
    np.testing.assert_allclose(floats(whole), whole @ W, rtol=1e-4)
    bytes_only = cx.from_onnx(onnx_file(kind="UINT8"))
    np.testing.assert_allclose(bytes_only(whole), whole @ W, rtol=1e-4)
    with pytest.raises(cx.InputError, match="takes uint8, but these rows are float32"):
        bytes_only(X)


def test_a_wrong_shape_is_said_through_the_explainer(onnx_file):
    model = cx.from_onnx(onnx_file())
    with pytest.raises(cx.InputError, match=r"rows of shape \(4\), but one row here is \(12, 12\)"):
        cx.BayesSHAP(model, cx.Image(cx.Grid(2, 2))).explain(PICTURE[0])


def test_outputs_are_named(onnx_file):
    path = onnx_file(outputs=2)
    with pytest.raises(cx.InputError, match="2 outputs; say output= one of y, minus"):
        cx.from_onnx(path)
    np.testing.assert_allclose(cx.from_onnx(path, output="minus")(X), -X @ W, rtol=1e-4)
    with pytest.raises(cx.InputError, match="no output 'z'"):
        cx.from_onnx(path, output="z")


def test_onnx_activation_transform_and_classes(onnx_file):
    path = onnx_file()
    np.testing.assert_allclose(
        cx.from_onnx(path, activation="softmax")(X), softmax(X @ W), rtol=1e-4
    )
    np.testing.assert_allclose(
        cx.from_onnx(path, activation="sigmoid")(X), 1 / (1 + np.exp(-X @ W)), rtol=1e-4
    )
    np.testing.assert_allclose(
        cx.from_onnx(path, transform=lambda row: 2 * row)(X),
        cx.from_onnx(path, prepare=lambda rows: 2 * rows, batch_size=3)(X),
        rtol=1e-5,
    )
    named = cx.from_onnx(path, classes=["a", "b", "c"], activation=lambda y: y * 2)
    assert cx.BayesSHAP(named, X, target="c").explain(X[0]).outputs == ("c",)


def test_an_onnx_model_pickles(onnx_file):
    model = pickle.loads(pickle.dumps(cx.from_onnx(onnx_file(4))))
    np.testing.assert_allclose(model(X), X @ W, rtol=1e-4)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda f: cx.from_onnx("nowhere.onnx"), "no ONNX file 'nowhere.onnx'"),
        (lambda f: cx.from_onnx(f(inputs=2)), "2 inputs"),
        (lambda f: cx.from_onnx(f(4), batch_size=5), "batch_size=5.*batches of 4"),
        (lambda f: cx.from_onnx(f(), threads=0), "threads.*0"),
    ],
)
def test_bad_onnx(onnx_file, make, match):
    with pytest.raises(cx.InputError, match=match):
        make(onnx_file)


def test_a_file_that_is_no_model(tmp_path, need):
    need("onnxruntime")
    path = tmp_path / "a.onnx"
    path.write_text("hello")
    with pytest.raises(cx.InputError, match="cannot be opened by onnxruntime"):
        cx.from_onnx(path)


# -- missing -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hidden", "call"), [("torch", lambda _: cx.from_torch(None)), ("onnxruntime", cx.from_onnx)]
)
def test_missing_frameworks_say_what_to_install(hidden, call, tmp_path, monkeypatch):
    file = tmp_path / "a.onnx"
    file.write_bytes(b"")
    monkeypatch.setitem(sys.modules, hidden, None)
    extra = "torch" if hidden == "torch" else "onnx"
    with pytest.raises(cx.MissingExtraError, match=rf"pip install 'credex\[{extra}\]'"):
        call(file)
