"""The command line: what it prints, what it writes, and how it fails."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from pandas.testing import assert_frame_equal
from sklearn.linear_model import LogisticRegression

import credex as cx
from credex.cli.app import cli
from tests.endpoint import Endpoint
from tests.needs import need

need("pyarrow")

SHOP = '''"""Models to explain."""
import os
import time

import numpy as np

def linear(rows):
    x = np.asarray(rows, dtype=float)
    return x[:, 0] * x[:, 1] + x[:, 2]

def slow(rows):
    time.sleep(float(os.environ.get("SHOP_SECONDS", "0.3")))
    return linear(rows)

def other(rows):
    return linear(rows) + 1

def broken(rows):
    raise RuntimeError("no GPU")
'''
ROWS = pd.DataFrame(np.random.default_rng(0).normal(size=(30, 3)), columns=list("abc"))
ROWS.insert(0, "key", [f"k{i}" for i in range(30)])
GOALS = ["--queries", "20", "--partition-rows", "8"]


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with data and models; the current one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    for name in ("PYTHONPATH", "PYTHONWARNINGS"):  # what a command changes is put back
        monkeypatch.setenv(name, os.environ.get(name, ""))
    (tmp_path / "shop.py").write_text(SHOP)
    ROWS.to_csv("rows.csv", index=False)
    yield tmp_path
    sys.modules.pop("shop", None)


def run(*arguments, code=0, text=None):
    """Run a command in this process; return what it prints to stdout."""
    found = CliRunner().invoke(cli, [str(a) for a in arguments], input=text)
    assert found.exit_code == code, found.output
    if code:
        assert found.stdout == ""
        assert "Traceback" not in found.stderr
        return found.stderr
    return found.stdout


def explain(*arguments, model="shop:linear", data="rows.csv", **how):
    return run("explain", model, data, *GOALS, *arguments, **how)


def python(*arguments, **options):
    """Start the real command in a process of its own."""
    command = [sys.executable, "-m", "credex", *map(str, arguments)]
    source = str(Path(cx.__file__).parents[1])
    env = {**os.environ, "PYTHONPATH": source, **options.pop("env", {})}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, env=env, **pipes, **options)  # noqa: S603


# -- one row and many ---------------------------------------------------------------------------


def test_one_row_is_a_table(here):
    text = explain("--drop", "key", "--row", "3")
    assert text.startswith("BayesSHAP: prediction")
    features = pd.read_csv("rows.csv").drop(columns="key")
    model = __import__("shop").linear
    e = cx.BayesSHAP(model, features).explain(features.iloc[[3]], queries=20)
    assert text.splitlines()[:6] == str(e).splitlines()[:6]
    assert max(map(len, text.splitlines()[:6])) < 80


def test_one_row_by_id_as_json_and_saved(here):
    found = json.loads(explain("--id", "key", "--row", "k7", "--json", "--out", "why.json"))
    assert found["row"] == "k7"
    assert [line["feature"] for line in found["importances"]] == ["a", "b", "c"]
    e = cx.Explanation.from_json("why.json")
    assert e.label == "k7"
    assert e.mean.tolist() == [line["estimate"] for line in found["importances"]]


def test_all_rows_into_a_folder(here):
    rows = ROWS.assign(region=["north", "south"] * 15)
    rows.to_csv("rows.csv", index=False)
    text = explain("--id", "key", "--keep", "region", "--out", "out", "--row-cost", "0.5")
    batch = cx.read_batch("out")
    assert re.match(r"30 rows explained in 'out': [\d,]+ model rows, at a price of", text)
    assert batch.complete
    assert [len(f["row"].unique()) for f in batch.frames()] == [8, 8, 8, 6]
    frame = batch.to_frame()
    assert list(frame["row"].unique()) == list(ROWS["key"])
    explainer = cx.BayesSHAP(__import__("shop").linear, ROWS[list("abc")])
    whole = pd.concat(explainer.frames([rows], id="key", keep=["region"], queries=20))
    assert list(frame["region"]) == list(whole["region"])
    np.testing.assert_allclose(frame["estimate"], whole["estimate"], rtol=1e-9)


@pytest.mark.parametrize("method", ["shap", "lime"])
def test_json_lines_through_a_pipe(here, method):
    rows = ROWS[:4].to_json(orient="records", lines=True)
    goals = ["--background", "rows.csv", "--id", "key", "--json", "--method", method]
    form = ["--queries", "60", "--format", "jsonl"]
    text = run("explain", "shop:linear", "-", *goals, *form, text=rows)
    lines = [json.loads(line) for line in text.splitlines()]
    assert {line["row"] for line in lines} == {"k0", "k1", "k2", "k3"}
    assert len(lines) == 12
    assert all(line["error"] is None for line in lines)


def test_rows_by_position_keep_their_names(here):
    explain("--drop", "key", "--rows", "10:15", "--out", "out", "--quiet")
    assert list(cx.read_batch("out").to_frame()["row"].unique()) == [10, 11, 12, 13, 14]


@pytest.mark.parametrize("form", ["parquet", "feather", "jsonl", "csv.gz", "stream", "folder"])
def test_forms_of_data_give_the_same(here, form):
    data = Path(f"data.{form}")
    if form == "parquet":
        ROWS.set_index(ROWS["key"].rename(None)).to_parquet(data, row_group_size=7)
    elif form == "feather":
        ROWS.to_feather(data)
    elif form == "jsonl":
        data.write_text("\n".join(map(json.dumps, ROWS.to_dict(orient="records"))))
    elif form == "csv.gz":
        ROWS.to_csv(data, index=False)
    elif form == "stream":
        pa = need("pyarrow")
        data, table = Path("data.arrow"), pa.Table.from_pandas(ROWS)
        with pa.ipc.new_stream(data, table.schema) as sink:
            sink.write_table(table, max_chunksize=11)
    else:
        data.mkdir()
        ROWS[:11].to_parquet(data / "1.parquet")
        ROWS[:0].to_parquet(data / "2.parquet")  # a partition of no rows
        ROWS[11:].to_csv(data / "3.csv", index=False)
        (data / "_SUCCESS").touch()
    more = ["--id", "key", "--background", "rows.csv", "--quiet"]
    explain(*more, "--out", "one")
    explain(*more, "--out", "two", data=data)
    one, two = cx.read_batch("one").to_frame(), cx.read_batch("two").to_frame()
    pd.testing.assert_series_equal(one["row"], two["row"])
    np.testing.assert_allclose(one["estimate"], two["estimate"], rtol=1e-9)


# -- models -------------------------------------------------------------------------------------


@pytest.fixture
def fitted(here):
    return LogisticRegression().fit(ROWS[list("abc")], np.where(ROWS["a"] > 0, "yes", "no"))


def test_pickles_need_trust(fitted):
    joblib.dump(fitted, "m.joblib")
    said = explain("--row", "0", model="m.joblib", code=2)
    assert "unpickling runs any code" in said
    assert "--trust-pickle" in said
    found = json.loads(
        explain("--row", "0", "--trust-pickle", "--target", "yes", "--json", model="m.joblib")
    )
    assert found["outputs"] == ["yes"]  # and the column that is no feature was left out


def test_skops_lists_types_that_it_does_not_know(fitted):
    skops = need("skops.io")
    skops.dump(fitted, "m.skops")
    explain("--row", "0", "--target", "yes", "--quiet", model="m.skops")
    fitted.note = __import__("shop").linear
    skops.dump(fitted, "u.skops")
    said = explain("--row", "0", model="u.skops", code=2)
    assert "If you trust them, say --trust shop.linear" in said
    explain("--row", "0", "--trust", "shop.linear", "--quiet", model="u.skops")


def test_onnx(here):
    onnx = need("onnx")
    need("onnxruntime")
    helper, floats = onnx.helper, onnx.TensorProto.FLOAT
    weights = helper.make_tensor("w", floats, [3, 1], [1.0, 2.0, 3.0])
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", floats, [None, 3])],
        [helper.make_tensor_value_info("y", floats, [None, 1])],
        [weights],
    )
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=9), "m.onnx")
    found = json.loads(explain("--row", "0", "--drop", "key", "--json", model="m.onnx"))
    assert found["prediction"] == pytest.approx(ROWS.loc[0, list("abc")] @ [1, 2, 3], rel=1e-5)


@pytest.mark.filterwarnings("ignore")  # MLflow warns of its own type hints
def test_mlflow(fitted, monkeypatch):
    need("mlflow")
    sklearn = need("mlflow.sklearn")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    sklearn.save_model(fitted, "model")
    assert "--trust-pickle" in explain("--row", "0", model="model", code=2)
    more = ["--row", "0", "--trust-pickle", "--target", "yes", "--json"]
    assert json.loads(explain(*more, model="model"))["outputs"] == ["yes"]
    assert "MLflow cannot load" in explain(*more[:3], model="models:/none/1", code=2)


def test_a_flaky_endpoint_is_counted(here):
    faults = ["500", "", "drop", "html", "", "503 0.001"]
    with Endpoint(faults) as server:
        more = ["--drop", "key", "--out", "out", "--json", "--request-rows", "100"]
        found = json.loads(explain(*more, model=server.url))
        assert found["rows"] == 30
        assert found["errors"] == 0
        assert found["model_rows"] == found["endpoint"]["rows_sent"] == server.rows
        assert found["endpoint"]["retries"] == 4


def test_the_ceiling_on_rows_stops_and_resumes(here):
    with Endpoint() as server:
        more = ["--drop", "key", "--out", "out", "--cache", "answers.sqlite"]
        said = explain(*more, "--max-rows", "200", model=server.url, code=1)
        assert re.search(r"--max-rows 200 is reached.*\d+ rows are safe in 'out'.*--resume", said)
        assert server.rows <= 200
        assert not cx.read_batch("out").complete
        explain(*more, "--resume", "--quiet", model=server.url)
        assert cx.read_batch("out").complete
        assert len(set(server.seen)) == server.rows  # no row was paid twice
    said = explain("--drop", "key", "--out", "two", "--max-rows", "200", code=1)
    assert "--max-rows 200 is reached" in said
    more = ["--out", "three", "--jobs", "2", "--max-rows", "200"]
    assert "--max-rows counts in one process" in explain(*more, code=2)


# -- bad input ----------------------------------------------------------------------------------


def folder_of(name, *frames):
    Path(name).mkdir()
    for i, frame in enumerate(frames):
        frame.to_csv(Path(name) / f"{i}.csv", index=False)
    return name


BAD = {
    "missing column": (
        lambda: ROWS.drop(columns="c").to_csv("bad.csv", index=False) or "bad.csv",
        "'bad.csv' misses the column c; it has key, a, b",
    ),
    "missing column later": (
        lambda: folder_of("bad", ROWS[:9], ROWS[9:].drop(columns="b")),
        "'bad/1.csv' misses the columns b, which 'bad/0.csv' has",
    ),
    "other dtype later": (
        lambda: folder_of("bad", ROWS[:9], ROWS[9:].assign(b="much")),
        "column 'b' holds numbers in 'rows.csv', but 'much' in 'bad/1.csv'",
    ),
    "empty file": (lambda: Path("bad.csv").touch() or "bad.csv", "'bad.csv' is empty"),
    "no rows": (
        lambda: ROWS[:0].to_csv("bad.csv", index=False) or "bad.csv",
        "'bad.csv' has no rows",
    ),
    "empty folder": (lambda: folder_of("bad"), "the folder 'bad' holds no file of rows"),
    "duplicate ids": (
        lambda: ROWS.assign(key="same").to_csv("bad.csv", index=False) or "bad.csv",
        "the id same is there more than once",
    ),
    "unreadable Parquet": (
        lambda: Path("bad.parquet").write_bytes(b"PAR1 no") and "bad.parquet",
        "'bad.parquet' cannot be read as parquet: ",
    ),
    "bad JSON": (
        lambda: Path("bad.jsonl").write_text('{"a": 1}\n{"a"\n') and "bad.jsonl",
        "line 2 is no JSON",
    ),
    "no file": (lambda: "none.csv", "there is no file 'none.csv'"),
    "unknown ending": (lambda: Path("x.txt").touch() or "x.txt", "give --format csv, jsonl"),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_data_is_one_line_and_leaves_nothing_behind(what, here):
    make, words = BAD[what]
    said = explain("--id", "key", "--background", "rows.csv", "--out", "out", data=make(), code=2)
    assert words in said
    assert said.count("\n") == 1
    assert Path("out").exists() == ("later" in what)  # the first part was done by then


def test_numbers_that_look_otherwise_in_later_files_follow_the_first(here):
    parts = ROWS[:9], ROWS[9:].assign(b=np.arange(21))  # whole numbers
    folder_of("data", *parts)
    ROWS[:3].assign(b=["1", "2", "3"]).to_parquet("data/9.parquet")  # numbers as texts
    explain("--drop", "key", "--out", "out", "--quiet", data="data")
    batch = cx.read_batch("out")
    assert len(batch) == 33
    assert len(batch.errors) == 0


def test_codes_with_leading_zeros_stay_texts(here):
    text = ROWS[:3].assign(key=["x", "007", "8"])
    folder_of("data", text[:1], text[1:])
    explain("--id", "key", "--out", "out", "--quiet", "--background", "rows.csv", data="data")
    assert list(cx.read_batch("out").to_frame()["row"].unique()) == ["x", "007", "8"]


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("nothing", "give one of: package.module:attribute"),
        ("none:x", "there is no module 'none'"),
        ("shop:x", "'shop' has no attribute 'x'"),
        ("none.onnx", "there is no model file 'none.onnx'"),
        ("ftp://host/x", "give one of"),
    ],
)
def test_bad_models(model, words, here):
    assert words in explain("--drop", "key", "--row", "0", model=model, code=2)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "give --row N for one row, --out FOLDER for all, or --json"),
        (["--row", "99"], "'rows.csv' has 30 rows, counted from 0"),
        (["--row", "x"], "--row is 'x'"),
        (["--rows", "5:2", "--out", "o"], "--rows is '5:2'"),
        (["--row", "0", "--out", "why.txt"], "FILE.json"),
        (["--row", "0", "--resume"], "go with --out FOLDER"),
        (["--row", "0", "--target", "5"], "--target 5: the model has only 1 output"),
        (["--row", "0", "--queries", "2"], "--queries 2 is too few"),
        (["--row", "0", "--id", "none"], "'rows.csv' misses the column none"),
        (["--row", "0", "--method", "tree"], "Invalid value for '--method'"),
        (["--out", "o", "--resume", "--overwrite"], "--resume and --overwrite contradict"),
    ],
    ids=str,
)
def test_bad_arguments(arguments, words, here):
    said = run("explain", "shop:linear", "rows.csv", "--drop", "key", *arguments, code=2)
    assert words in said


def test_a_folder_that_exists_is_refused_unless_told(here):
    explain("--drop", "key", "--out", "out", "--quiet")
    before = cx.read_batch("out").to_frame()
    said = explain("--drop", "key", "--out", "out", code=2)
    assert "'out' holds a complete batch; pass --resume" in said
    assert "--overwrite to begin anew" in said
    explain("--drop", "key", "--out", "out", "--resume", "--quiet")
    assert_frame_equal(cx.read_batch("out").to_frame(), before)
    again = ["--drop", "key", "--out", "out"]
    assert "another model" in explain(*again, "--resume", model="shop:other", code=2)
    assert "another options" in explain(*again, "--resume", "--seed", "5", code=2)
    ROWS.assign(a=1.0).to_csv("rows2.csv", index=False)
    more = ["--resume", "--background", "rows.csv"]
    assert "was made of other rows" in explain(*again, *more, data="rows2.csv", code=2)
    assert_frame_equal(cx.read_batch("out").to_frame(), before)
    explain(*again, "--overwrite", "--quiet", model="shop:other")
    assert not cx.read_batch("out").to_frame().equals(before)
    Path("mine").mkdir()
    Path("mine/letter.txt").touch()
    assert "holds other files" in explain("--drop", "key", "--out", "mine", "--overwrite", code=2)
    assert Path("mine/letter.txt").exists()


def test_no_space_left_is_said_with_what_is_safe(here):
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("there is no /dev/full here")
    Path("out").mkdir()
    Path("out/.part-00000001.parquet.tmp").symlink_to(full)
    # the folder is prepared by removing old temporary files, so the link is put back by the model
    Path("shop.py").write_text(
        SHOP
        + """
from pathlib import Path
calls = []

def fills(rows):
    link = Path("out/.part-00000001.parquet.tmp")
    if not link.is_symlink():
        link.symlink_to("/dev/full")
    return linear(rows)
"""
    )
    said = explain("--drop", "key", "--out", "out", model="shop:fills", code=2)
    assert "no space is left on the device: make room; 1 parts are safe, --resume goes on" in said


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write")
def test_a_read_only_folder(here):
    Path("closed").mkdir(mode=0o500)
    said = explain("--drop", "key", "--out", "closed/out", code=2)
    assert "you may not write there" in said


def test_an_output_below_a_file_is_refused(here):
    assert "Error: " in explain("--drop", "key", "--out", "rows.csv/out", code=2)
    assert "is a file" in explain("--drop", "key", "--out", "rows.csv", code=2)
    said = explain("--drop", "key", "--row", "0", "--out", "none/why.json", code=2)
    assert "cannot write 'none/why.json': No such file" in said


def test_a_model_that_fails(here):
    said = explain("--drop", "key", "--row", "0", model="shop:broken", code=1)
    assert said == "Error: the model raised RuntimeError on 1 rows: no GPU\n"
    found = CliRunner().invoke(
        cli,
        ["explain", "shop:broken", "rows.csv", *GOALS, "--drop", "key", "--row", "0", "--debug"],
    )
    assert found.exit_code == 1
    assert "Traceback (most recent call last)" in found.stderr
    every = CliRunner().invoke(
        cli, ["explain", "shop:broken", "rows.csv", *GOALS, "--drop", "key", "--out", "out"]
    )
    assert every.exit_code == 1
    assert "30 rows could not be explained" in every.stdout


# -- stopped and resumed, in processes of their own ---------------------------------------------


def wait_for(path, process):
    begun = time.monotonic()
    while not Path(path).exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() - begun < 120
        time.sleep(0.02)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_stopped_job_goes_on(how, here):
    command = ["explain", "shop:slow", "rows.csv", *GOALS, "--drop", "key", "--out", "out"]
    process = python(*command, env={"SHOP_SECONDS": "0.5"}, start_new_session=True)
    wait_for("out/part-00000000.parquet", process)
    os.killpg(process.pid, how)
    _, said = process.communicate(timeout=60)
    if how == signal.SIGINT:
        assert process.returncode == 130
        assert re.search(r"^Error: interrupted; [\d,]+ rows are safe in 'out', and the same", said)
        assert "Traceback" not in said
    assert not cx.read_batch("out").complete
    done = python(*command, "--resume", "--json", env={"SHOP_SECONDS": "0"})
    text, said = done.communicate(timeout=120)
    assert done.returncode == 0, said
    assert said == ""  # no progress where nobody looks
    assert json.loads(text)["complete"]
    explain("--drop", "key", "--out", "whole", "--quiet")
    for part in cx.read_batch("whole").parts:
        assert part.read_bytes() == Path("out", part.name).read_bytes()


def test_ctrl_c_does_not_wait_for_an_endpoint(here):
    with Endpoint(slow=15.0) as server:
        more = ["--drop", "key", "--out", "out", *GOALS]
        process = python("explain", server.url, "rows.csv", *more)
        while server.at_once == 0:
            assert process.poll() is None, process.communicate()
            time.sleep(0.02)
        begun = time.monotonic()
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
        assert process.returncode == 130, said
        assert time.monotonic() - begun < 10
        assert "0 rows are safe" in said
        assert "Traceback" not in said


def test_the_real_command_fails_in_one_line(here):
    process = python("explain", "shop:linear", "none.csv", "--row", "0")
    text, said = process.communicate(timeout=60)
    assert (process.returncode, text, said) == (2, "", "Error: there is no file 'none.csv'\n")


def test_workers_find_models_of_the_current_folder(here):
    process = python("explain", "shop:linear", "rows.csv", *GOALS, "--drop", "key", "--out", "out",
                     "--jobs", "2", "-q")  # fmt: skip
    _, said = process.communicate(timeout=120)
    assert process.returncode == 0, said
    explain("--drop", "key", "--out", "one", "--quiet")
    assert_frame_equal(cx.read_batch("one").to_frame(), cx.read_batch("out").to_frame())


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["dask", "ray", "spark"])
def test_engines_write_the_same_folder(engine, here):
    need({"dask": "distributed", "ray": "ray", "spark": "pyspark"}[engine])
    process = python("explain", "shop:linear", "rows.csv", *GOALS, "--drop", "key", "--out", "out",
                     "--engine", engine, "--jobs", "2", "-q")  # fmt: skip
    _, said = process.communicate(timeout=300)
    assert process.returncode == 0, said
    explain("--drop", "key", "--out", "one", "--quiet")
    for part in cx.read_batch("one").parts:
        assert part.read_bytes() == Path("out", part.name).read_bytes()


# -- the other commands -------------------------------------------------------------------------


def test_forecast(here):
    more = ["--drop", "key", "--width", "0.2", "--seed-queries", "40", "--row-cost", "2"]
    one = json.loads(run("forecast", "shop:linear", "rows.csv", *more, "--row", "1", "--json"))
    assert one["cost"] == 2 * one["model_rows"]
    many = json.loads(run("forecast", "shop:linear", "rows.csv", *more, "--json", "--sample", "3"))
    assert many["rows"] == 30
    assert many["model_rows"] == pytest.approx(30 * np.mean(many["model_rows_each"]))
    assert "30 rows to width 0.2: about" in run("forecast", "shop:linear", "rows.csv", *more)
    assert "give --width" in run("forecast", "shop:linear", "rows.csv", code=2)


def test_verify(here):
    more = ["--drop", "key", "--queries", "20", "-n", "5"]
    text = run("verify", "shop:linear", "rows.csv", *more)
    assert "intervals at level 0.95 hold the exact value" in text
    found = json.loads(run("verify", "shop:linear", "rows.csv", *more, "--json"))
    assert found["rows"] == 5


def test_report(here):
    explain("--drop", "key", "--row", "2", "--out", "why.json", "--quiet")
    run("report", "saved", "why.json", "--out", "saved.html")
    more = ["--drop", "key", "--queries", "20"]
    run("report", "shop:linear", "rows.csv", *more, "--row", "2", "--out", "one.html")
    run("report", "shop:linear", "rows.csv", *more, "--rows", "0:3", "--out", "three.html")
    for page in ("saved.html", "one.html", "three.html"):
        assert Path(page).read_text(encoding="utf-8").startswith("<!")
    said = run("report", "saved", "why.json", "--out", "none/x.html", code=2)
    assert "none/x.html" in said


def test_aggregate(here):
    ROWS.assign(region=["north", "south"] * 15).to_csv("rows.csv", index=False)
    explain("--id", "key", "--keep", "region", "--out", "out", "--quiet")
    assert re.search(r"30 rows.*\n.*\n.*feature", run("aggregate", "out"))
    lines = json.loads(run("aggregate", "out", "--by", "region", "--json", "--out", "means.csv"))
    assert len(lines) == len(pd.read_csv("means.csv"))
    assert {"north", "south"} <= {str(value) for line in lines for value in line.values()}
    assert "holds no batch" in run("aggregate", "nowhere", code=2)


def test_loss(here):
    y = ROWS["a"] * ROWS["b"] + ROWS["c"]
    ROWS.assign(price=y, sold=["no", "yes"] * 15).to_csv("rows.csv", index=False)
    more = ["rows.csv", "--drop", "key", "--drop", "sold", "--queries", "400"]
    squared = [*more, "--loss", "squared", "--label", "price"]
    text = run("loss", "shop:linear", *squared, "--row-cost", "2")
    assert "Shares of the squared error over" in text
    assert "model rows, at a price of" in text
    found = json.loads(run("loss", "shop:linear", *squared, "--json", "--out", "shares.csv"))
    assert found["model_loss"] == pytest.approx(0.0, abs=1e-9)
    assert {line["feature"] for line in found["shares"]} == set("abc")
    assert len(pd.read_csv("shares.csv")) == 3
    shap = cx.BayesSHAP(lambda r: r["a"] * r["b"] + r["c"], ROWS[list("abc")])
    same = shap.explain_loss(ROWS[list("abc")], y, loss="squared error", queries=400)
    np.testing.assert_allclose(found["total"][0], same.total.value[0])
    model = LogisticRegression().fit(ROWS[list("abc")], ["no", "yes"] * 15)
    joblib.dump(model, "model.joblib")
    entropy = ["--trust-pickle", "--loss", "cross-entropy", "--label", "sold", "--json"]
    found = json.loads(run("loss", "model.joblib", *more, *entropy))
    assert 0 < found["model_loss"] < 1
    said = run("loss", "model.joblib", *more, *entropy, "--target", "yes", code=2)
    assert "cross-entropy reads all outputs" in said
    bad = ["loss", "shop:linear", *more, "--loss", "squared", "--label"]
    assert "misses the column nothing" in run(*bad, "nothing", code=2)
    assert "the label no; squared error takes numbers" in run(*bad, "sold", code=2)


def test_serve_until_ctrl_c(here):
    need("uvicorn")
    more = ["--drop", "key", "--port", "0", "--width", "0.2"]
    process = python("serve", "shop:linear", "rows.csv", *more)
    line = process.stderr.readline()
    url = re.search(r"http://127\.0\.0\.1:\d+", line)
    assert url, line + process.stderr.read()
    with urllib.request.urlopen(url[0], timeout=30) as page:  # noqa: S310 - our own
        assert page.status == 200
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 0, said
    assert "Traceback" not in said


def test_demo_writes_what_the_next_command_needs(here):
    text = run("demo", "--out", "tumours")
    assert "BayesSHAP: prediction 0.9400 for malignant" in text
    command = text[text.index("credex explain") :].replace("\\\n", " ").split()[1:]
    os.chdir("tumours")
    again = run(*command)
    assert again.splitlines()[1:][:8] == text.splitlines()[3:11]


def test_completion_and_help(here):
    assert "_CREDEX_COMPLETE=zsh_complete" in run("completion", "zsh")
    assert run("--version") == f"credex {cx.__version__}\n"
    for command in cli.commands:
        text = run(command, "--help")
        assert max(map(len, text.splitlines())) <= 88
