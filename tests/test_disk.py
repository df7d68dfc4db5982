"""Batches on disk: whole parts only, resumed where they stopped, refused if they do not fit."""

import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from pandas.testing import assert_frame_equal

import credex as cx
from credex.lock import LockedError, locked
from tests.needs import need
from tests.strategies import Bumpy, Counting, FailsAfter, numbers

pq = need("pyarrow.parquet")

GOALS = {"queries": 30, "partition_rows": 5}


class Exact:
    """A quick model whose answers do not depend on the batch."""

    def __init__(self, factor=1.0):
        self.factor = factor

    def __call__(self, rows):
        x = np.asarray(rows, dtype=np.float64)
        return self.factor * (x[:, 0] * x[:, 1] + np.maximum(x[:, 2], x[:, 3]) + x[:, 4])


TRAIN = pd.DataFrame(numbers(60, 5), columns=list("abcde"))


def explainer(model=None, train=TRAIN, **options):
    return cx.BayesSHAP(model or Exact(), cx.Tabular(train, background=2), **options)


@pytest.fixture
def rows():
    out = TRAIN.iloc[:18].copy()
    out.loc[7, "c"] = np.nan
    return out


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "batch"


def test_a_folder_holds_what_frames_gives(folder, rows):
    batch = explainer().explain_many(rows, out=folder, **GOALS)
    assert isinstance(batch, cx.SavedBatch)
    expected = pd.concat(explainer().frames([rows], queries=30), ignore_index=True)
    assert_frame_equal(batch.to_frame(), expected)
    again = cx.read_batch(str(folder))
    assert again.complete
    assert len(again) == 18
    assert len(again.parts) == 4
    assert list(again.errors["row"]) == [7]
    assert again.errors["error"].str.contains("'c' is missing").all()
    assert sum(map(len, again.frames(["row"]))) == len(expected)
    assert list(again.to_frame(["row", "estimate"]).columns) == ["row", "estimate"]
    assert again.manifest["rows"] == 18
    assert "18 rows" in repr(again)
    assert sorted(p.name for p in folder.iterdir())[:2] == ["log.jsonl", "manifest.json"]


def test_model_rows_are_counted(folder, rows):
    model = Counting(Exact())
    batch = explainer(model).explain_many(rows, out=folder, **GOALS)
    assert batch.n_model_rows == model.rows


@pytest.mark.parametrize("form", ["frames", "rows", "array", "sparse", "list"])
def test_forms_of_input(form, folder):
    X = TRAIN.iloc[:12]
    whole = pd.concat(explainer().frames([X], queries=30), ignore_index=True)
    given = {
        "frames": (X.iloc[i : i + 7].reset_index(drop=True) for i in (0, 7)),
        "rows": (row for _, row in X.iterrows()),
        "array": X.to_numpy(),
        "sparse": sp.coo_array(X.to_numpy()),
        "list": X.to_numpy().tolist(),
    }[form]
    batch = explainer().explain_many(given, out=folder, **GOALS)
    assert_frame_equal(batch.to_frame(), whole)
    again = {"frames": iter([X]), "rows": iter(X.to_numpy())}.get(form, given)
    memory = explainer().explain_many(again, queries=30)
    np.testing.assert_array_equal(memory.mean.ravel(), whole["estimate"])


def test_two_processes_write_the_same_bytes(tmp_path, rows):
    one = explainer().explain_many(rows, out=tmp_path / "one", **GOALS)
    two = explainer().explain_many(rows, out=tmp_path / "two", n_jobs=2, **GOALS)
    assert [p.read_bytes() for p in one.parts] == [p.read_bytes() for p in two.parts]


def test_an_interrupted_job_goes_on(folder, rows):
    whole = explainer().explain_many(rows, out=folder.with_name("whole"), **GOALS)
    model = Counting(FailsAfter(Exact(), 3, KeyboardInterrupt()))
    with pytest.raises(cx.InterruptedRun, match="resume=True") as info:
        explainer(model).explain_many(rows, out=folder, **GOALS)
    assert 0 < len(info.value.partial) < 18
    assert not info.value.partial.complete
    model.inner.mended = True
    before, parts_done = model.rows, len(info.value.partial.parts)
    batch = explainer(model).explain_many(rows, out=folder, resume=True, **GOALS)
    assert batch.complete
    assert [p.read_bytes() for p in batch.parts] == [p.read_bytes() for p in whole.parts]
    todo = sum(json.loads(line)["model_rows"] for line in log(folder)[parts_done:])
    assert model.rows - before == todo + 5  # the first part's predictions were compared


def log(folder):
    return (folder / "log.jsonl").read_text().splitlines()


def test_a_complete_batch_asks_nothing_when_resumed(folder, rows):
    explainer().explain_many(rows, out=folder, **GOALS)
    model = Counting(Exact())
    assert explainer(model).explain_many(rows, out=folder, resume=True, **GOALS).complete
    assert model.rows == 5


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, "complete batch.*resume=True.*overwrite=True"),
        ({"resume": True, "overwrite": True}, "contradict"),
        ({"resume": True, "queries": 40}, "another goals.*30.*40"),
        ({"resume": True, "seed": 1}, "another options"),
        ({"resume": True, "partition_rows": 6}, "another partition_rows: 5 there, 6 now"),
        ({"resume": True, "keep": ["a"]}, "another ids"),
    ],
    ids=str,
)
def test_a_folder_that_does_not_fit_is_refused(change, words, folder, rows):
    explainer().explain_many(rows, out=folder, **GOALS)
    before = {p.name: p.read_bytes() for p in folder.iterdir()}
    model = Counting(Exact())
    with pytest.raises(cx.InputError, match=words):
        explainer(model).explain_many(rows, out=folder, **{**GOALS, **change})
    assert model.calls == 0
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == before


def test_another_model_other_data_and_other_rows_are_refused(folder, rows):
    explainer().explain_many(rows, out=folder, **GOALS)
    again = {"out": folder, "resume": True, **GOALS}
    with pytest.raises(cx.InputError, match="another model: for row 0"):
        explainer(Exact(1.01)).explain_many(rows, **again)
    with pytest.raises(cx.InputError, match="another model: for row 0"):
        explainer(Bumpy(5)).explain_many(rows, **again)
    with pytest.raises(cx.InputError, match="another training data"):
        explainer(train=TRAIN + 1).explain_many(rows, **again)
    other = rows.copy()
    other.iloc[6, 0] += 1
    with pytest.raises(cx.InputError, match=r"part-00000001\.parquet.*other rows"):
        explainer().explain_many(other, **again)
    with pytest.raises(cx.InputError, match="other rows"):
        explainer().explain_many(rows.set_axis(rows.index + 1), **again)
    with pytest.raises(cx.InputError, match="more parts than the 10 rows"):
        explainer().explain_many(rows.iloc[:10], **again)


def test_overwriting(folder, rows):
    explainer().explain_many(rows, out=folder, **GOALS)
    batch = explainer(Exact(2.0)).explain_many(rows.iloc[:6], out=folder, overwrite=True, **GOALS)
    assert len(batch) == 6
    assert len(batch.parts) == 2


def test_folders_that_hold_something_else(folder, rows):
    folder.mkdir()
    (folder / "thesis.tex").write_text("precious")
    for how in ({}, {"resume": True}, {"overwrite": True}):
        with pytest.raises(cx.InputError, match=r"other files.*thesis\.tex"):
            explainer().explain_many(rows, out=folder, **GOALS, **how)
    with pytest.raises(cx.InputError, match="is a file"):
        explainer().explain_many(rows, out=folder / "thesis.tex", **GOALS)
    assert (folder / "thesis.tex").read_text() == "precious"
    with pytest.raises(cx.InputError, match="holds no batch"):
        cx.read_batch(folder)
    (folder / "manifest.json").write_text('{"format": "other"}')
    with pytest.raises(cx.InputError, match="not that of a credex batch"):
        cx.read_batch(folder)
    (folder / "manifest.json").write_text("{")
    with pytest.raises(cx.InputError, match="damaged"):
        cx.read_batch(folder)


def test_a_part_that_cannot_be_read(folder, rows):
    batch = explainer().explain_many(rows, out=folder, **GOALS)
    good = batch.parts[1].read_bytes()
    batch.parts[1].write_bytes(good[: len(good) // 2])
    with pytest.raises(cx.OutputError, match=r"part-00000001\.parquet.*delete it"):
        batch.to_frame()
    with pytest.raises(cx.OutputError, match="delete it"):
        explainer().explain_many(rows, out=folder, resume=True, **GOALS)
    batch.parts[1].unlink()
    explainer().explain_many(rows, out=folder, resume=True, **GOALS)
    assert batch.parts[1].read_bytes() == good


def test_no_space_left(folder, rows):
    """The file of the third part leads to /dev/full, where the kernel has no space left."""

    def given():
        yield rows.iloc[:5]
        yield rows.iloc[5:10]
        (folder / ".part-00000002.parquet.tmp").symlink_to("/dev/full")
        yield rows.iloc[10:15]

    with pytest.raises(cx.OutputError, match=r"no space.*2 parts are safe.*resume=True") as info:
        explainer().explain_many(given(), out=folder, **GOALS)
    assert isinstance(info.value, OSError)
    assert not list(folder.glob(".*"))
    batch = explainer().explain_many(iter([rows.iloc[:15]]), out=folder, resume=True, **GOALS)
    assert batch.complete
    assert len(batch) == 15


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder(folder, rows):
    folder.mkdir(mode=0o500)
    model = Counting(Exact())
    with pytest.raises(cx.OutputError, match="may not write"):
        explainer(model).explain_many(rows, out=folder, **GOALS)
    assert model.calls == 0


def test_a_read_only_file_system(rows):
    """/sys/kernel exists, and nobody may write there, root included."""
    model = Counting(Exact())
    with pytest.raises(cx.OutputError, match="cannot write in '/sys/kernel'"):
        explainer(model).explain_many(rows, out="/sys/kernel", **GOALS)
    assert model.calls == 0


def test_a_folder_that_cannot_be_made(rows):
    model = Counting(Exact())
    with pytest.raises(cx.OutputError, match="cannot make the folder in '/proc/nowhere'"):
        explainer(model).explain_many(rows, out="/proc/nowhere", **GOALS)
    assert model.calls == 0


def test_empty_input(folder):
    batch = explainer().explain_many(TRAIN.iloc[:0], out=folder, **GOALS)
    assert batch.complete
    assert len(batch) == 0
    assert list(batch.to_frame().columns)[:2] == ["row", "output"]
    frames = iter([TRAIN.iloc[:0], TRAIN.iloc[:2], TRAIN.iloc[:0]])
    assert len(explainer().explain_many(frames, out=folder, overwrite=True, **GOALS)) == 2


def test_ids_may_not_repeat_in_another_part(folder, rows):
    given = rows.assign(who=[*range(12), 3, *range(13, 18)])
    with pytest.raises(cx.InputError, match=r"id 3 of part 2 is in an earlier part"):
        explainer().explain_many(given, out=folder, id="who", **GOALS)


def test_ids_may_not_repeat_in_a_part(folder, rows):
    model = Counting(Exact())
    given = rows.assign(who=[*range(4), 3, *range(5, 18)])
    with pytest.raises(cx.InputError, match=r"id 3 is there more than once"):
        explainer(model).explain_many(given, out=folder, id="who", **GOALS)
    assert model.calls == 0


def test_other_dtypes_in_a_later_part(folder, rows):
    """Whole numbers as texts are refused as ids; a feature that is no number is a row's error."""
    first, later = rows.iloc[:5].assign(who=range(5)), rows.iloc[10:15].assign(who=list("vwxyz"))
    with pytest.raises(cx.InputError, match="'row' is int64 in the first frame"):
        explainer().explain_many(iter([first, later]), out=folder, id="who", **GOALS)
    assert len(cx.read_batch(folder)) == 5
    mixed = rows.iloc[10:15].astype(object)
    mixed.iloc[1, 0] = "many"
    mixed = mixed.assign(who=range(5, 10))
    given = iter([first, mixed])
    batch = explainer().explain_many(given, out=folder, id="who", overwrite=True, **GOALS)
    assert batch.complete
    assert list(batch.errors["row"]) == [6]
    assert batch.errors["error"].str.contains("'a'.*'many'").all()
    types = [pq.read_schema(part).remove_metadata() for part in batch.parts]
    assert types[0] == types[1]


def test_input_files(folder, rows, tmp_path):
    """Files of no rows make no part; one that is no Parquet ends the job, resumable."""
    for i, block in enumerate((rows.iloc[:0], rows.iloc[:7], rows.iloc[:0], rows.iloc[7:])):
        block.to_parquet(tmp_path / f"{i}.parquet")
    files = sorted(tmp_path.glob("*.parquet"))
    files[3].write_bytes((whole := files[3].read_bytes())[:100])
    with pytest.raises((OSError, ValueError), match="Parquet"):
        explainer().explain_many(map(pd.read_parquet, files), out=folder, **GOALS)
    assert [len(frame["row"].unique()) for frame in cx.read_batch(folder).frames()] == [5, 2]
    files[3].write_bytes(whole)
    again = map(pd.read_parquet, files)
    batch = explainer().explain_many(again, out=folder, resume=True, **GOALS)
    assert batch.complete
    assert len(batch) == 18


def test_missing_columns_in_a_later_frame(folder, rows):
    given = iter([rows.iloc[:5], rows.iloc[5:10].drop(columns="d")])
    with pytest.raises(cx.InputError, match="missing 'd'"):
        explainer().explain_many(given, out=folder, **GOALS)
    assert len(cx.read_batch(folder)) == 5


def test_memory_does_not_grow_with_the_rows(folder):
    """What Python and NumPy hold at most: 800 further rows add less than 1 kB each.

    The frame of one row takes about 1 kB; what grows are caches and cycles that await collection.
    """
    cheap = cx.BayesSHAP(Exact(), cx.Tabular(TRAIN.iloc[:1]))

    def peak(n):
        blocks = (pd.DataFrame(numbers(40, 5, seed=i), columns=list("abcde")) for i in range(n))
        tracemalloc.start()
        cheap.explain_many(blocks, out=folder / str(n), queries=30, partition_rows=40)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    peak(2)  # what is imported and cached once
    assert peak(25) - peak(5) < 800 * 1000


@pytest.mark.parametrize(
    "options", [{"resume": True}, {"overwrite": True}, {"id": "a"}, {"keep": ["a"]}], ids=str
)
def test_options_of_a_folder_without_one(options, rows):
    with pytest.raises(cx.InputError, match="out='folder'"):
        explainer().explain_many(rows, queries=30, **options)


def test_the_time_of_a_batch(folder, rows):
    def slow(x):
        time.sleep(0.03)
        return Exact()(x)

    stop = cx.WallClock(0.4, batch=True) | cx.Queries(30)
    options = {"stop": stop, "batch_rows": 20}
    begun = time.perf_counter()
    batch = explainer(slow).explain_many(TRAIN, **options)
    assert time.perf_counter() - begun < 3
    assert not batch.complete
    assert batch.items[0] is not None
    assert batch.items[-1] is None
    assert explainer().explain_many(TRAIN, start=batch, queries=30).complete
    saved = explainer(slow).explain_many(TRAIN, out=folder, partition_rows=2, **options)
    assert not saved.complete
    assert 0 < len(saved) < len(TRAIN)
    assert len(saved) % 2 == 0


class Noting(Exact):
    """Notes in a file how many rows it was asked for."""

    def __init__(self, file):
        super().__init__()
        self.file = str(file)

    def __call__(self, rows):
        with Path(self.file).open("a") as file:
            file.write(f"{len(rows)}\n")
        return super().__call__(rows)

    @property
    def rows(self):
        return sum(map(int, Path(self.file).read_text().split()))


HOLD = """
import sys, time
from pathlib import Path
from tests.test_disk import TRAIN, Exact, explainer
def model(rows):
    Path(sys.argv[2]).touch()
    time.sleep(60)
explainer(model).explain_many(TRAIN, out=sys.argv[1], queries=30, partition_rows=5)
"""


def python(code, *arguments, **options):
    here = str(Path(__file__).resolve().parents[1])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, here])}
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, env=environment, **options)  # noqa: S603


def wait_for(path, job):
    while not path.exists():
        assert job.poll() is None, "the job ended before it began"
        time.sleep(0.01)


@pytest.mark.parametrize("how", [{}, {"resume": True}, {"overwrite": True}], ids=str)
def test_two_jobs_do_not_write_into_one_folder(how, folder, rows, tmp_path):
    job = python(HOLD, folder, tmp_path / "at work")
    try:
        wait_for(tmp_path / "at work", job)
        before = {p.name: p.read_bytes() for p in folder.iterdir()}
        assert ".lock" in before
        model = Counting(Exact())
        words = rf"is being written by process {job.pid} on .*, since 20.*another folder"
        with pytest.raises(cx.OutputError, match=words):
            explainer(model).explain_many(TRAIN, out=folder, **GOALS, **how)
        assert model.calls == 0
        assert {p.name: p.read_bytes() for p in folder.iterdir()} == before
    finally:
        job.kill()
        job.wait()
    assert (folder / ".lock").exists()  # left behind by the dead, and holds nobody up
    batch = explainer().explain_many(TRAIN, out=folder, **GOALS, **(how or {"overwrite": True}))
    assert batch.complete
    assert not list(folder.glob(".*"))


def test_a_lock_whose_file_was_removed_meanwhile_is_taken_again(tmp_path, monkeypatch):
    """A job opens the lock while its holder removes it: it must not hold the removed file."""
    path, flock, stolen = tmp_path / "lock", fcntl.flock, []

    def late(number, how):
        if not stolen:
            stolen.append(path.unlink())
        flock(number, how)

    monkeypatch.setattr(fcntl, "flock", late)
    with locked(path):
        monkeypatch.undo()
        with pytest.raises(LockedError, match=f"process {os.getpid()} on"), locked(path):
            pass
        assert path.exists()
    assert not path.exists()


STOP = """
import sys, time
from tests.test_disk import TRAIN, Exact, explainer
class Slow(Exact):
    def __call__(self, rows):
        time.sleep(0.2)
        return super().__call__(rows)
if __name__ == "__main__":
    explainer(Slow()).explain_many(
        TRAIN, out=sys.argv[1], n_jobs=int(sys.argv[2]), queries=30, partition_rows=3
    )
"""


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_ctrl_c_stops_and_can_be_resumed(n_jobs, folder):
    """SIGINT to the job and its workers, as a terminal sends it."""
    job = python(STOP, folder, n_jobs, start_new_session=True, stderr=subprocess.PIPE, text=True)
    try:
        wait_for(folder / "part-00000001.parquet", job)
        os.killpg(job.pid, signal.SIGINT)
        _, said = job.communicate(timeout=60)
    finally:
        if job.poll() is None:
            os.killpg(job.pid, signal.SIGKILL)
    assert job.returncode == 1
    assert re.search(r"InterruptedRun: interrupted; \d+ rows are safe.*resume=True", said)
    done = cx.read_batch(folder)
    assert not done.complete
    assert 3 <= len(done) < len(TRAIN)  # two workers may finish part 1 first
    assert not list(folder.glob(".*"))  # neither a lock nor half a part
    again = explainer().explain_many(TRAIN, out=folder, resume=True, queries=30, partition_rows=3)
    assert again.complete
    expected = pd.concat(explainer().frames([TRAIN], queries=30), ignore_index=True)
    assert_frame_equal(again.to_frame(), expected)


SCRIPT = """
import sys
from tests.test_disk import TRAIN, Noting, explainer
explainer(Noting(sys.argv[2])).explain_many(
    TRAIN, out=sys.argv[1], resume=True, queries=30, partition_rows=3
)
"""


@pytest.mark.slow
def test_killed_at_random_moments(tmp_path):
    """20 times kill -9, then to the end: the same bytes, and nothing but parts in flight twice."""
    options = {"queries": 30, "partition_rows": 3}
    once = Noting(tmp_path / "once")
    whole = explainer(once).explain_many(TRAIN, out=tmp_path / "whole", **options)
    one_part = max(json.loads(line)["model_rows"] for line in log(whole.path))
    folder, rng, model = tmp_path / "killed", np.random.default_rng(0), Noting(tmp_path / "asked")
    unfinished = 0
    for kill in range(20):
        job = python(SCRIPT, folder, model.file)
        while job.poll() is None and len(list(folder.glob("part*"))) <= kill * 18 // 20:
            time.sleep(0.001)
        time.sleep(rng.random() * 0.03)
        unfinished += job.poll() is None
        job.send_signal(signal.SIGKILL)
        job.wait()
        for part in folder.glob("part*"):
            pd.read_parquet(part)  # whole, always
    assert unfinished >= 10  # most were killed at work
    batch = explainer(model).explain_many(TRAIN, out=folder, resume=True, **options)
    assert batch.complete
    assert [p.read_bytes() for p in batch.parts] == [p.read_bytes() for p in whole.parts]
    assert not list(folder.glob(".*"))
    compared = 3  # predictions of the first part, at each start
    assert model.rows <= once.rows + 20 * (one_part + compared) + compared
