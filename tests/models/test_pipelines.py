"""Hugging Face pipelines, the real ones, around a tiny network with random weights."""

import numpy as np
import pytest

import credex as cx
from tests.needs import need

LABELS = {0: "ham", 1: "spam", 2: "other"}
PAD, UNKNOWN = "[PAD]", "[UNK]"
WORDS = ["free", "phone", "win", "now", "meeting", "you", "a", "the"]


@pytest.fixture(scope="module")
def pipeline():
    torch, transformers, tokenizers = need("torch"), need("transformers"), need("tokenizers")
    vocabulary = {w: i for i, w in enumerate([PAD, UNKNOWN, *WORDS])}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token=UNKNOWN))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=made,
        pad_token=PAD,
        unk_token=UNKNOWN,
        model_max_length=16,
    )
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=16,
        initializer_range=1.0,
        id2label=LABELS,
        label2id={v: k for k, v in LABELS.items()},
    )
    network = transformers.BertForSequenceClassification(config).eval()
    return transformers.pipeline("text-classification", model=network, tokenizer=tokenizer)


TEXT = "you win a free phone now"


def test_scores_are_in_the_order_of_the_labels(pipeline):
    model = cx.from_pipeline(pipeline)
    assert model.classes_.tolist() == ["ham", "spam", "other"]
    scores = model.predict_proba([TEXT, "the meeting", ""])
    assert scores.shape == (3, 3)
    np.testing.assert_allclose(scores.sum(axis=1), 1.0, atol=1e-5)
    best = pipeline([TEXT])[0]
    j = model.classes_.tolist().index(best["label"])
    assert scores[0, j] == pytest.approx(best["score"], abs=1e-6)
    assert scores[0].argmax() == j


def test_explained_by_label_with_its_own_tokenizer(pipeline):
    model = cx.from_pipeline(pipeline, batch_size=4)
    shap = cx.BayesSHAP(model, cx.Text(unit=pipeline.tokenizer), target="spam")
    e = shap.explain(TEXT, posterior="exact")
    assert e.names == tuple(TEXT.split())
    assert e.outputs == ("spam",)
    full, empty = model.predict_proba([TEXT, ""])[:, 1]
    assert e.mean.sum() == pytest.approx(full - empty, abs=1e-6)
    assert np.abs(e.mean).max() > 1e-3


def test_long_texts_are_cut(pipeline):
    long = " ".join(WORDS * 9)
    assert cx.from_pipeline(pipeline).predict_proba([long]).shape == (1, 3)


def test_what_is_no_pipeline():
    with pytest.raises(cx.InputError, match="takes a transformers pipeline; got function"):
        cx.from_pipeline(lambda texts: texts)


def test_other_tasks(pipeline, monkeypatch):
    monkeypatch.setattr(pipeline, "task", "summarization")
    with pytest.raises(cx.InputError, match="summarization"):
        cx.from_pipeline(pipeline)
