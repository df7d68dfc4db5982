"""Random streams: no two parts of a run share their draws."""

import ast
from pathlib import Path

import numpy as np

import credex as cx
from credex.seeds import Purpose, child, spawn


def test_no_stream_meets_another():
    """First draws of all streams of some seeds, dimensions and child runs are different."""
    seen = {}
    seeds = [0, 1, 7, 13, 1_000_003, 2**31]
    seeds += [child(seed, p) for seed in seeds for p in Purpose]
    for seed in seeds:
        for purpose in Purpose:
            for key in [(), (1,), (7,), (13,), (17, 3), (1_000_003,)]:
                draw = tuple(spawn(seed, purpose, *key).integers(0, 2**63, 2).tolist())
                assert draw not in seen, f"{(seed, purpose, key)} meets {seen[draw]}"
                seen[draw] = (seed, purpose, key)


def test_children_differ_from_their_parents_and_from_each_other():
    found = [child(seed, p) for seed in range(200) for p in Purpose]
    assert len(set(found)) == len(found)
    assert not set(found) & set(range(2_000_000))
    assert child(3, Purpose.REFERENCE) == child(3, Purpose.REFERENCE)


def test_streams_of_a_seed_are_made_in_one_place_only():
    """Elsewhere a generator may take a seed as it is, but never a seed and a number."""
    src = Path(cx.__file__).parent
    for path in sorted(src.rglob("*.py")):
        if path.name == "seeds.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            called = getattr(node.func, "attr", "") if isinstance(node, ast.Call) else ""
            if called in ("default_rng", "SeedSequence", "RandomState"):
                ok = all(isinstance(a, ast.Name | ast.Constant | ast.Attribute) for a in node.args)
                assert ok, f"{path.relative_to(src)}:{node.lineno} should use seeds.spawn"


def test_the_reference_of_verify_is_independent_of_the_projection_pool(monkeypatch):
    """Both used to be the stream of seed + 1,000,003."""
    X = np.random.default_rng(0).normal(size=(300, 4))
    explainer = cx.BayesLIME(lambda r: r[:, 0] * r[:, 1], X, posterior="gp")
    asked = set()
    at = type(explainer.domain.at(X[0]))
    original = at.perturb

    def perturb(self, seed, start, stop, **kwargs):
        asked.add(seed)
        return original(self, seed, start, stop, **kwargs)

    monkeypatch.setattr(at, "perturb", perturb)
    explainer.verify(X, 1, queries=40)
    assert len(asked) == 3  # the explanation, its pool, the reference


def test_purposes_are_distinct_numbers_above_zero():
    """Trailing zeros in the entropy would make streams of different keys the same."""
    numbers = [int(p) for p in Purpose.__members__.values()]  # also names of one number
    assert min(numbers) > 0
    assert len(set(numbers)) == len(numbers)
