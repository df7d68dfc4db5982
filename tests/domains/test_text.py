"""Texts taken apart and put together again, in every script."""

import pickle
import re
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import credex as cx
from credex.domains.text.spans import unique
from credex.domains.text.words import sentences, words
from tests.needs import need
from tests.strategies import seeds

PATTERN = re.compile(r"\S+")
texts = st.text(st.characters(codec="utf-8"), min_size=1, max_size=80)
prose = st.lists(
    st.sampled_from(
        ["free", "Free", "שלום", "我爱", "हिन्दी", "😀", "a.b", "x!", "3.5", "\n\n", "don’t"]
    ),
    min_size=1,
    max_size=30,
).map(" ".join)
units = st.sampled_from(["word", "sentence", PATTERN])


def split(function, text):
    return [text[a:b] for a, b in function(text)]


def looked_at(text, **options):
    try:
        return cx.Text(**options).at(text)
    except cx.InputError:
        assume(False)


@given(texts | prose, units, st.sampled_from([None, "[MASK]", ""]), seeds)
def test_everything_on_gives_the_text_back(text, unit, mask, seed):
    here = looked_at(text, unit=unit, mask=mask)
    d = len(here.names)
    assert here.instance_inputs() == [text]
    assert len(set(here.names)) == d
    masks = np.random.default_rng(seed).random((5, d)) < 0.5
    rows, index = here.coalition_inputs(masks)
    assert index is None
    assert len(rows) == 5
    for row, on in zip(rows, masks, strict=True):
        at = 0  # every part that is on is there, in its order
        for part, kept in zip(here.source.spans, on, strict=True):
            if kept:
                word = text[part[0][0] : part[0][1]]
                at = row.index(word, at) + len(word)
        if not mask:
            letters = iter(text)  # and nothing is there that was not in the text
            assert all(c in letters for c in row)
            assert len(row) <= len(text)


@given(texts | prose, units)
def test_spans_are_apart_and_in_order(text, unit):
    here = looked_at(text, unit=unit)
    flat = [s for part in here.source.spans for s in part]
    assert flat == sorted(flat)
    for (_, b), (c, _) in pairwise(flat):
        assert b <= c
    assert all(text[a:b] == text[a:b].strip() != "" for a, b in flat)


@given(st.lists(st.sampled_from(["a", "a #2", "a #2 #2", "b", "x" * 60, "x" * 61])))
def test_names_are_unique_whatever_the_words(raw):
    assert len(set(unique(raw))) == len(raw)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Don't pay 1,000.50, it’s free!", ["Don't", "pay", "1,000.50", "it’s", "free"]),
        ("state-of-the-art (really)", ["state", "of", "the", "art", "really"]),
        ("हिन्दी में लिखा", ["हिन्दी", "में", "लिखा"]),
        ("שלום, צה״ל!", ["שלום", "צה״ל"]),
        ("می‌خواهم بروم", ["می‌خواهم", "بروم"]),
        ("我爱 カタカナ です", ["我", "爱", "カタカナ", "で", "す"]),
        ("ok 👨‍👩‍👧 👍🏽", ["ok", "👨‍👩‍👧", "👍🏽"]),
        ("cafe\u0301 nai\u0308ve", ["cafe\u0301", "nai\u0308ve"]),
        ("a\x00b\x1b[0m", ["a", "b", "0m"]),
        ("'quoted' end.", ["quoted", "end"]),
        ("... !?", []),
    ],
)
def test_words(text, expected):
    assert split(words, text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Dr. Who left. He ran!", ["Dr. Who left.", "He ran!"]),
        ("Pi is 3.14 or so. Yes", ["Pi is 3.14 or so.", "Yes"]),
        ("J. Smith came.", ["J. Smith came."]),
        ('He said "no." Then left', ['He said "no."', "Then left"]),
        ("A head\n\nA body", ["A head", "A body"]),
        ("我爱你。你好！", ["我爱你。", "你好！"]),
        ("هل أنت هنا؟ نعم.", ["هل أنت هنا؟", "نعم."]),
        ("No end", ["No end"]),
        (" \n ", []),
    ],
)
def test_sentences(text, expected):
    assert split(sentences, text) == expected


def one(domain, text, on):
    return domain.at(text).coalition_inputs(np.array([on], dtype=bool))[0][0]


def test_removing_leaves_the_text_tidy():
    assert one(cx.Text(), "win a free phone", [1, 0, 0, 1]) == "win phone"
    assert one(cx.Text(), "win, a phone", [0, 1, 1]) == ", a phone"
    assert one(cx.Text(), "x-free y", [1, 0, 1]) == "x- y"  # nothing grows together
    assert one(cx.Text(unit="sentence"), "One. Two. Three.", [1, 0, 1]) == "One. Three."
    assert one(cx.Text(unit=PATTERN), "win! a, phone", [1, 0, 1]) == "win! phone"


def test_masks_stand_where_the_word_was():
    assert one(cx.Text(mask="[MASK]"), "win a phone", [1, 0, 1]) == "win [MASK] phone"
    assert one(cx.Text(mask=lambda w: "x" * len(w)), "win a phone", [0, 1, 1]) == "xxx a phone"
    with pytest.raises(cx.InputError, match=r"mask= returned 3 for 'win'"):
        cx.Text(mask=len).at("win a phone").base_inputs()


def test_a_word_replaced_by_itself_is_known_not_to_matter():
    here = cx.Text(mask="…").at("so … much")  # … is no word
    assert here.active.tolist() == [True, True]
    e = cx.BayesSHAP(lambda t: [float(len(x)) for x in t], cx.Text(mask="so")).explain("so very so")
    assert e.names == ("so", "very", "so #2")
    np.testing.assert_array_equal(e.mean, [0, 2, 0])
    assert e.exact


def test_repeats():
    assert cx.Text().at("so so So").names == ("so", "so #2", "So")
    assert cx.Text(repeats="shared").at("so so So").names == ("so", "So")
    folded = cx.Text(repeats=str.casefold)
    assert folded.at("so so So").names == ("so",)
    assert one(folded, "so good so", [0, 1]) == "good "


def test_functions_that_misbehave():
    with pytest.raises(cx.InputError, match=r"repeats= returned \['so'\], a list"):
        cx.Text(repeats=lambda w: [w]).at("so so")
    with pytest.raises(cx.InputError, match="repeats= raised KeyError on 'so'"):
        cx.Text(repeats={}.__getitem__).at("so so")

    def never(rows):
        raise AssertionError(rows)

    for explainer in (cx.BayesSHAP, cx.BayesLIME):
        with pytest.raises(cx.InputError, match="mask= raised KeyError on 'so'"):
            explainer(never, cx.Text(mask={}.__getitem__)).explain("so so")


def test_own_spans_and_named_spans():
    text = "Dear Bob, you won a car"
    assert cx.Text(unit=[(0, 8), (10, 17)]).at(text).names == ("Dear Bob", "you won")
    named = cx.Text(unit={"hello": (0, 4), "car": [(18, 19), (20, 23)]})
    assert named.at(text).names == ("hello", "car")
    assert one(named, text, [1, 0]) == "Dear Bob, you won "
    assert cx.Text(unit=lambda t: t.split()).at(text).names == tuple(text.split())


@pytest.mark.parametrize(
    ("unit", "match"),
    [
        ([(0, 99)], r"span \(0, 99\).*23"),
        ([(5, 5)], r"span \(5, 5\)"),
        ([(0, 5), (4, 8)], "overlap"),
        ([(0, 5, 8)], "pair"),
        ([3], "pair"),
        (lambda t: t, "must return a list"),
        (lambda t: t.lower().split(), r"token 0.*'dear'.*changes the text"),
        (lambda t: ["Dear", "Bob", "you", "you"], r"token 3.*'you'"),
        ([], "no part"),
        ({}, "no part"),
        ({"a": []}, "no part"),
        ({"a": 3}, r"unit\['a'\] has 3"),
        ({"a": [(0, 2), (1, 3)]}, "overlap"),
        (lambda t: 1 / 0, "unit= raised ZeroDivisionError on 'Dear Bob"),
    ],
)
def test_bad_spans(unit, match):
    with pytest.raises(cx.InputError, match=match):
        cx.Text(unit=unit).at("Dear Bob, you won a car")


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"unit": "letter"}, "unit='letter'"),
        ({"unit": 3}, "unit=3; use 'word'"),
        ({"unit": re.compile(rb"x")}, "bytes"),
        ({"mask": 3}, "mask is 3"),
        ({"mask": "\ud800"}, "mask has a lone surrogate"),
        ({"repeats": "both"}, "repeats is 'both'"),
        ({"repeats": np.arange(2)}, "repeats is array"),
    ],
)
def test_bad_options(options, match):
    with pytest.raises(cx.InputError, match=match):
        cx.Text(**options)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "empty"),
        (" \n\t", "white space"),
        ("?!...", r"no word.*\\S"),
        ("a \ud800 b", "lone surrogate"),
        (["a", "b"], "explain_many"),
        (b"bytes", "bytes"),
        (None, "NoneType"),
    ],
)
def test_bad_texts_never_reach_the_model(text, match):
    def never(rows):
        raise AssertionError(rows)

    with pytest.raises(cx.InputError, match=match):
        cx.BayesSHAP(never, cx.Text()).explain(text)


# -- tokenizers --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tokenizer():
    tokenizers = need("tokenizers")
    made = tokenizers.ByteLevelBPETokenizer()
    made.train_from_iterator(["you won a free phone, wonderful"] * 9, vocab_size=290)
    return made._tokenizer


@pytest.mark.parametrize("text", ["you won a free phone!", "free 😀 שלום", "unwonted"])
def test_tokenizers_give_sub_words(tokenizer, text):
    here = cx.Text(unit=tokenizer).at(text)
    assert here.instance_inputs() == [text]
    assert here.base_inputs()[0].strip() == ""
    assert here.unit[0] == "per token present"
    assert len(here.names) > len(text.split())
    assert [s for part in here.source.spans for s in part] == sorted(
        s for part in here.source.spans for s in part
    )


def test_truncation_of_the_tokenizer_is_undone_for_us_and_kept_for_the_user(tokenizer):
    short = pickle.loads(pickle.dumps(tokenizer))
    short.enable_truncation(2)
    here = cx.Text(unit=short).at("you won a free phone")
    assert here.base_inputs()[0].strip() == ""
    assert short.truncation["max_length"] == 2


def test_transformers_tokenizers(tokenizer):
    transformers = need("transformers")
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer)
    text = "you won a free phone!"
    assert cx.Text(unit=fast).at(text).names == cx.Text(unit=tokenizer).at(text).names


def test_a_tokenizer_that_changes_the_length_of_the_text(tokenizer):
    tokenizers = need("tokenizers")
    folding = pickle.loads(pickle.dumps(tokenizer))
    both = [tokenizers.normalizers.NFKC(), tokenizers.normalizers.Lowercase()]
    folding.normalizer = tokenizers.normalizers.Sequence(both)
    text = "ﬁne İstanbul ½ ŉ free"
    assert len(folding.normalizer.normalize_str(text)) > len(text)
    here = cx.Text(unit=folding).at(text)
    assert here.instance_inputs() == [text]
    assert here.base_inputs()[0].strip() == ""


def test_slow_tokenizers_say_what_to_do():
    slow = need("transformers").ByT5Tokenizer()
    with pytest.raises(cx.InputError, match=r"ByT5Tokenizer does not say.*use_fast=True"):
        cx.Text(unit=slow).at("free phone")


# -- through the explainers --------------------------------------------------------------------


def model(rows):
    assert isinstance(rows, list)
    assert all(type(t) is str for t in rows)
    free = np.array([t.count("free") for t in rows])
    win = np.array(["win" in t and "now" in t for t in rows])
    return free - 2.0 * np.array(["meeting" in t for t in rows]) + win


DOCUMENT = "You win a car. A free phone! Call now or never. Free, free. The meeting? Dull words."


def test_shapley_values_of_words():
    e = cx.BayesSHAP(model, cx.Text()).explain("win a free meeting now", posterior="exact")
    np.testing.assert_allclose(e.mean, [0.5, 0, 1, -2, 0.5], atol=1e-12)
    assert e.base_value == 0
    assert "a word is cut out" in str(e)
    lime = cx.BayesLIME(model, cx.Text()).explain("win a free meeting now", queries=30)
    assert lime.units == ("per word present",) * 5


def test_one_word():
    e = cx.BayesSHAP(model, cx.Text()).explain("free")
    np.testing.assert_array_equal(e.mean, [1.0])
    assert e.exact
    np.testing.assert_allclose(cx.BayesLIME(model, cx.Text()).explain("free").mean, [1.0])


def test_labels_of_any_kind_survive():
    X = pd.Series(["win now", "free now"], index=pd.to_datetime(["2020-01-01", "2021-05-05"]))
    shap = cx.BayesSHAP(model, cx.Text())
    for label, e in zip(X.index, shap.explain_many(X, queries=30), strict=True):
        again = shap.refine(cx.Explanation.from_json(e.to_json()), queries=40)
        assert e.label == again.label == label


def test_verify_on_a_linear_model():
    def linear(rows):
        return np.array([sum(map(len, t.split())) / 3 for t in rows])

    texts = ["one two three four five six", "a word and some more words of other lengths"]
    found = cx.BayesSHAP(linear, cx.Text()).verify(texts, n=2, queries=40)
    assert found.coverage == 1.0  # nothing is left over but rounding


def test_only_stop_words():
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    train = ["free phone now", "win a free car", "meeting at noon", "the project meeting"]
    pipe = make_pipeline(TfidfVectorizer(stop_words="english"), LogisticRegression())
    pipe.fit(train, [1, 1, 0, 0])
    e = cx.BayesSHAP(pipe, cx.Text(), target=1).explain("it is what it is")
    np.testing.assert_allclose(e.mean, 0.0, atol=1e-15)
    assert e.prediction == e.base_value


def test_control_characters_and_markup_reach_the_model_untouched():
    text = "a\x00b <b>free</b>\x1b[31m & \u202efree"
    seen = []
    cx.BayesSHAP(lambda rows: [seen.append(t) or float(len(t)) for t in rows], cx.Text()).explain(
        text
    )
    assert text in seen


def test_batches_of_different_lengths_equal_one_by_one():
    X = pd.Series(
        ["win a free phone now", "free", "the meeting is free now"], index=["p", "q", "r"]
    )
    shap = cx.BayesSHAP(model, cx.Text())
    batch = shap.explain_many(X, queries=40)
    for i, text in enumerate(X):
        np.testing.assert_array_equal(batch[i].mean, shap.explain(text, queries=40).mean)
    assert [e.label for e in batch] == ["p", "q", "r"]
    assert set(batch.to_frame()["row"]) == {"p", "q", "r"}
    assert [e.names for e in shap.explain_many(list(X), queries=40)] == [e.names for e in batch]
    recorded = shap.explain_many(["free now", "", None], queries=40, on_error="record")
    assert sorted(recorded.errors) == [1, 2]
    labelled = pd.Series(["free now", "", "win"], index=["p", "q", "r"])
    recorded = shap.explain_many(labelled, queries=40, on_error="record")
    assert list(recorded.errors) == [1]
    assert [e.label for e in recorded.explained] == ["p", "r"]
    with pytest.raises(cx.InputError, match="list of strings"):
        shap.explain_many("one text")


@pytest.mark.parametrize("explainer", [cx.BayesSHAP, cx.BayesLIME])
@pytest.mark.parametrize("mask", [None, "[MASK]", str.upper])
def test_json_and_refine(explainer, mask):
    ex = explainer(model, cx.Text(mask=mask))
    text = "win one free phone now or a second free phone at the meeting"
    e = cx.Explanation.from_json(ex.explain(text, queries=60).to_json())
    finer = ex.refine(e, queries=120)
    assert finer.n_queries in (119, 120)
    np.testing.assert_allclose(finer.mean, ex.explain(text, queries=120).mean, atol=1e-12)
    with pytest.raises(cx.InputError, match="another instance"):
        explainer(model, cx.Text(mask="other")).refine(e, queries=120)
    with pytest.raises(cx.InputError, match="not of a text"):
        cx.Text().restore({"values": []})


def test_refine_keeps_a_tokenizers_parts_without_the_tokenizer(tokenizer):
    text = "you won a free phone, wonderful"
    e = cx.BayesSHAP(model, cx.Text(unit=tokenizer)).explain(text, queries=60)
    finer = cx.BayesSHAP(model, cx.Text()).refine(e, queries=80)
    assert finer.names == e.names


def test_the_kernel_is_limes_for_texts():
    need("lime")
    from lime.lime_text import LimeTextExplainer

    d = 7
    masks = np.array([[True] * k + [False] * (d - k) for k in range(1, d + 1)])
    cosine = 1 - np.sqrt(masks.sum(axis=1) / d)
    theirs = LimeTextExplainer().base.kernel_fn(100 * cosine)
    ours = cx.Exponential(distance="cosine").weights(masks, np.ones(d))
    np.testing.assert_allclose(ours, theirs)
    a = cx.BayesLIME(model, cx.Text()).explain("win a free phone now", queries=25)
    b = cx.BayesLIME(model, cx.Text(), kernel=cx.Exponential(distance="cosine"))
    np.testing.assert_array_equal(a.mean, b.explain("win a free phone now", queries=25).mean)


# -- from sentences to words -------------------------------------------------------------------


def test_zoom_takes_the_largest_sentences_apart():
    shap = cx.BayesSHAP(model, cx.Text(unit="sentence"))
    document = DOCUMENT.replace("Free, free.", "Free, fine.")  # no tie with "A free phone!"
    first = shap.explain(document, posterior="exact")
    fine = shap.zoom(first, most=2, queries=400)
    assert fine.names == (
        *("You win a car.", "A", "free", "phone"),
        *("Call now or never.", "Free, fine.", "The", "meeting", "Dull words."),
    )
    assert first.n_queries < fine.n_queries <= 400
    truth = [0.5, 0, 1, 0, 0.5, 0, 0, -2, 0]
    np.testing.assert_allclose(fine.mean, truth, atol=1e-9)
    assert f"the largest after {first.n_queries} queries, which are counted" in str(fine)
    # an ordinary explanation: refined after a round trip, its queries still counted
    again = shap.refine(cx.Explanation.from_json(fine.to_json()), queries=600)
    assert again.n_queries > fine.n_queries
    assert again.names == fine.names
    assert again.exact
    assert again.notes == fine.notes[:-1]
    assert "without a remainder" in fine.notes[-1]  # nothing interacts in this text


def test_zoom_counts_what_the_first_stage_cost():
    calls = []

    def counted(rows):
        calls.append(len(rows))
        return model(rows)

    shap = cx.BayesSHAP(counted, cx.Text(unit="sentence"))
    first = shap.explain(DOCUMENT, queries=40)
    fine = shap.zoom(first, most=1, queries=200)
    assert fine.n_model_rows == sum(calls)
    assert fine.n_queries == sum(calls) - fine.exact <= 200  # exact: the repeat is no query
    assert shap.zoom(first, most=1).n_queries > first.n_queries
    lime = cx.BayesLIME(model, cx.Text(unit="sentence"))
    e = lime.explain(DOCUMENT, queries=40)
    assert lime.zoom(e, most=1, queries=150).n_queries == 150


def test_zoom_follows_one_output():
    def two(rows):
        return np.stack([model(rows), [3.0 * ("Dull" in t) for t in rows]], axis=1)

    shap = cx.BayesSHAP(two, cx.Text(unit="sentence"))
    e = shap.explain(DOCUMENT, posterior="exact")
    assert "Dull" in shap.zoom(e, most=1, queries=200).names
    assert "meeting" in shap.zoom(e, most=1, output=0, queries=200).names


def test_bad_zooms():
    shap = cx.BayesSHAP(model, cx.Text(unit="sentence"))
    e = shap.explain(DOCUMENT, queries=40)
    with pytest.raises(cx.BudgetError, match="are spent") as caught:
        shap.zoom(e, most=3, queries=e.n_queries + 4)
    least = shap.zoom(e, most=3, queries=caught.value.minimum)
    assert least.mean.shape == (10,)
    assert np.isfinite(least.mean).all()
    with pytest.raises(cx.InputError, match="most"):
        shap.zoom(e, most=0)
    with pytest.raises(cx.InputError, match="takes an Explanation"):
        shap.zoom("sentences")
    game = cx.BayesSHAP(lambda m: m.sum(axis=1), cx.Masks(3))
    with pytest.raises(cx.InputError, match="zoom is for texts"):
        game.zoom(game.explain())
    with pytest.raises(cx.InputError, match="not of a text"):
        shap.zoom(game.explain())


def test_two_thousand_words():
    rng = np.random.default_rng(0)
    vocabulary = np.array(["free", "win", "now", "phone", "the", "a", "of", "car", "and", "dull"])
    text = " ".join(f"{' '.join(rng.choice(vocabulary, 20)).capitalize()}." for _ in range(100))
    shap = cx.BayesSHAP(model, cx.Text(unit="sentence"))
    e = shap.explain(text, queries=400)
    fine = shap.zoom(e, most=2, queries=900)
    assert len(e.names) == 100
    assert len(fine.names) == 138
    assert e.to_frame().shape[0] == 100
