"""One contract for every engine: the same numbers, bad rows recorded, dead workers reported.

The engines are real: joblib's processes, dask's LocalCluster, Ray's local cluster, a SparkSession
on the machine's Java.
"""

import os
import secrets
import shutil
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from pandas.testing import assert_frame_equal
from sklearn.ensemble import RandomForestClassifier

import credex as cx
from credex.engines import local
from tests.needs import missing, need
from tests.strategies import numbers

HERE = Path(__file__).resolve().parents[1]
GOALS = {"queries": 30, "id": "who", "keep": ["region"]}

pytestmark = [
    pytest.mark.filterwarnings("default"),  # these packages are not held to our standards
]


class Loaded:
    """A forest that notes in which process it was loaded."""

    def __init__(self, forest, notes):
        self.forest, self.notes = forest, str(notes)

    def __setstate__(self, state):
        self.__dict__.update(state)
        with Path(self.notes).open("a") as file:
            file.write(f"{os.getpid()}\n")

    def __call__(self, rows):
        return self.forest.predict_proba(rows)[:, 1]


class Crashing:
    """A model that ends its process."""

    def __call__(self, rows):
        os._exit(3)


class Meeting:
    """A model that waits in its first call until other processes have begun theirs."""

    def __init__(self, folder, processes):
        self.folder, self.processes = str(folder), processes

    def __call__(self, rows):
        (Path(self.folder) / f"{os.getpid()}").touch()
        for _ in range(1200):  # a busy machine takes its time to start a process
            if len(list(Path(self.folder).iterdir())) >= self.processes:
                break
            time.sleep(0.1)
        self.processes = 0  # waits once
        return np.asarray(rows)[:, 0]


def table():
    return pd.DataFrame(numbers(80, 5), columns=list("abcde"))


def rows():
    out = table().iloc[:24].assign(who=[f"w{i:02d}" for i in range(24)])
    out["region"] = np.where(np.arange(24) % 2, "north", "south")
    out.loc[7, "c"] = np.nan
    return out


@pytest.fixture(scope="module")
def forest():
    X = table()
    model = RandomForestClassifier(5, max_depth=4, random_state=0, n_jobs=1)
    return model.fit(X, (X.a * X.b > 0).astype(int))


def explainer_of(model):
    return cx.BayesSHAP(model, cx.Tabular(table(), background=3))


@pytest.fixture(scope="module", autouse=True)
def _workers_find_the_tests():
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys([*sys.path[1:], str(HERE)]))
    yield
    os.environ.pop("PYTHONPATH")
    if before is not None:
        os.environ["PYTHONPATH"] = before


class Local:
    def __init__(self, tmp):
        pass

    def explain(self, explainer, frame, parts, **goals):
        blocks = np.array_split(np.arange(len(frame)), parts)
        found = local.explain(explainer, [frame.iloc[b] for b in blocks], n_jobs=2, **goals)
        return pd.concat(found, ignore_index=True)

    died = (cx.ModelError, "a worker process died.*at one of the frames 0, 1 .*begin at 0")

    def close(self):
        from joblib.externals.loky import get_reusable_executor

        get_reusable_executor().shutdown(wait=True)


class Dask:
    def __init__(self, tmp):
        need("dask.dataframe")
        distributed = need("distributed")
        import dask

        with dask.config.set({"distributed.scheduler.allowed-failures": 0}):  # read at the start
            self.cluster = distributed.LocalCluster(
                n_workers=2,
                threads_per_worker=1,
                dashboard_address=None,
                local_directory=str(tmp),
                silence_logs=50,
            )
        self.client = distributed.Client(self.cluster)
        self.died = (distributed.KilledWorker, r"_explain_partition-\w+', [01]\)")

    def explain(self, explainer, frame, parts, **goals):
        import dask.dataframe as dd

        from credex.engines import dask as engine

        given = dd.from_pandas(frame, npartitions=parts)
        return engine.explain(explainer, given, **goals).compute().reset_index(drop=True)

    def close(self):
        self.client.close()
        self.cluster.close()


class Spark:
    died = (Exception, "Task [01] in stage.*(exited unexpectedly|crashed|EOFException)")

    def __init__(self, tmp):
        need("pyspark")
        if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
            missing("java is not installed")
        from pyspark.sql import SparkSession

        os.environ["PYSPARK_PYTHON"] = sys.executable
        self.session = (
            SparkSession.builder.master("local[2]")
            .appName("credex")
            .config("spark.ui.enabled", "false")
            .config("spark.driver.memory", "1g")
            .config("spark.task.maxFailures", "1")
            .config("spark.sql.warehouse.dir", str(tmp))
            .config("spark.local.dir", str(tmp))
            .getOrCreate()
        )
        self.session.sparkContext.setLogLevel("OFF")

    def explain(self, explainer, frame, parts, **goals):
        from credex.engines import spark as engine

        given = self.session.createDataFrame(frame).repartitionByRange(parts, "who")
        found = engine.explain(explainer, given, **goals).toPandas()
        return found.sort_values("row", kind="stable").reset_index(drop=True)

    def close(self):
        self.session.stop()


class Ray:
    """A cluster of two processors, which are both taken if a pool of actors has two of them."""

    def __init__(self, tmp):
        ray = need("ray")
        need("ray.data")
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        (tmp / "token").write_text(secrets.token_hex(32))  # else Ray writes one into the home
        os.environ["RAY_AUTH_TOKEN_PATH"] = str(tmp / "token")
        ray.init(
            num_cpus=2,
            include_dashboard=False,
            object_store_memory=200 * 2**20,
            _node_ip_address="127.0.0.1",
            logging_level="ERROR",
            log_to_driver=False,
        )
        ray.data.DataContext.get_current().enable_progress_bars = False
        self.ray, self.tmp = ray, tmp
        self.died = (
            ray.exceptions.RayTaskError,
            "2 workers died.*at rows w(00|12) to w(11|23) of .who.",
        )

    def explain(self, explainer, frame, parts, **goals):
        given = self.read(frame, parts, index=False)
        found = self.lazy(explainer, given, max_retries=1, **goals).to_pandas()
        return found.sort_values("row", kind="stable").reset_index(drop=True)

    def read(self, frame, parts, **written):
        folder = self.tmp / f"{parts}-{len(list(self.tmp.iterdir()))}"
        folder.mkdir()
        for i, block in enumerate(np.array_split(np.arange(len(frame)), parts)):
            frame.iloc[block].to_parquet(folder / f"{i}.parquet", **written)
        return self.ray.data.read_parquet(str(folder), override_num_blocks=parts)

    def lazy(self, *given, **goals):
        from credex.engines import ray as engine

        return engine.explain(*given, **goals)

    def close(self):
        self.ray.shutdown()


ENGINES = [Local, Dask, Ray, Spark]


@pytest.fixture(scope="module", params=ENGINES, ids=lambda c: c.__name__.lower())
def engine(request, tmp_path_factory):
    found = request.param(tmp_path_factory.mktemp(request.param.__name__))
    yield found
    found.close()


def plain(frame):
    """The same dtypes for every engine: values are what counts."""
    out = frame.astype(object)
    return out.where(out.notna(), None)


def test_every_engine_gives_the_same_numbers(engine, forest, tmp_path):
    """Bit by bit, in two ways to divide the rows; a bad row is recorded; one load per worker."""
    notes = tmp_path / "notes"
    explainer = explainer_of(Loaded(forest, notes))
    expected = pd.concat(explainer.frames([rows()], **GOALS), ignore_index=True)
    assert list(expected.loc[expected["error"].notna(), "row"]) == ["w07"]
    assert set(expected["region"]) == {"north", "south"}
    for parts in (2, 25):  # of 24 rows: one is empty, where the engine allows it
        found = engine.explain(explainer, rows(), parts, **GOALS)
        assert list(found.columns) == list(expected.columns)
        assert_frame_equal(plain(found), plain(expected), check_exact=True)
    loads = pd.Series(notes.read_text().split())
    assert loads.value_counts().max() == 1, "the model was loaded twice in a worker"


def test_a_worker_that_dies_is_reported(engine):
    kind, words = engine.died
    with pytest.raises(kind, match=f"(?s){words}"):
        engine.explain(explainer_of(Crashing()), rows(), 2, **GOALS)


def test_frames_of_the_wrong_kind(engine):
    name = type(engine).__name__.lower()
    if name == "local":
        with pytest.raises(cx.InputError, match="missing 'a'"):
            engine.explain(explainer_of(Crashing()), rows().drop(columns="a"), 2, **GOALS)
        return
    from importlib import import_module

    module = import_module(f"credex.engines.{name}")
    with pytest.raises(cx.InputError, match="the rows are a DataFrame; pass a"):
        module.explain(explainer_of(Crashing()), rows(), id="who")


@pytest.mark.parametrize("engine", [Ray], indirect=True, ids=["ray"])
def test_ray_takes_every_processor_for_one_file(engine, tmp_path):
    """A task for every 12 rows, two at a time; Ray alone would make one task of the file."""
    met, out = tmp_path / "met", tmp_path / "out"
    met.mkdir()
    given = engine.read(rows().drop(columns="c").drop(index=7), 1, index=False)
    domain = cx.Tabular(table().drop(columns="c"), background=3)
    explainer = cx.BayesSHAP(Meeting(met, 2), domain)
    engine.lazy(explainer, given, partition_rows=12, **GOALS).write_parquet(str(out))
    parts = [set(pd.read_parquet(file)["row"]) for file in out.glob("*.parquet")]
    assert sorted(map(len, parts)) == [11, 12]
    assert len(set.union(*parts)) == 23
    assert len(list(met.iterdir())) == 2
    with pytest.raises(cx.InputError, match="partition_rows must be a whole number ≥ 1; got 0"):
        engine.lazy(explainer, given, partition_rows=0, **GOALS)


@pytest.mark.parametrize("engine", [Ray], indirect=True, ids=["ray"])
def test_ray_takes_types_from_the_schema(engine, forest):
    """Whole numbers stay whole if the first is missing; an index of pandas is a column of Ray."""
    visits = pd.array([None, *range(1, 24)], dtype="Int64")
    given = engine.read(rows().assign(visits=visits).drop(columns="region").set_index("who"), 1)
    found = engine.lazy(explainer_of(forest), given, queries=30, id="who", keep=["visits"])
    values = {row["row"]: row["visits"] for row in found.take_all()}
    assert values == {f"w{i:02d}": i or None for i in range(24)}
    assert {type(value) for value in values.values()} == {int, type(None)}
    with pytest.raises(cx.InputError, match="missing 'a'"):
        engine.lazy(explainer_of(Crashing()), given.drop_columns(["a"]), id="who")


def test_joblib_contexts_are_respected(forest, tmp_path):
    need("distributed")
    import joblib
    from distributed import Client, LocalCluster

    options = {"dashboard_address": None, "silence_logs": 50, "threads_per_worker": 1}
    explainer = explainer_of(Loaded(forest, tmp_path / "notes"))
    X = table().iloc[:8]
    alone = explainer.explain_many(X, queries=30)
    assert alone.workers == "one worker"
    with LocalCluster(n_workers=2, **options) as cluster, Client(cluster) as client:
        with joblib.parallel_config("dask"):
            batch = explainer.explain_many(X, queries=30)
        pids = set(client.run(os.getpid).values())
    assert batch.workers == "DaskDistributed (2)"
    loads = (tmp_path / "notes").read_text().split()
    assert {int(pid) for pid in loads} <= pids
    assert len(loads) == len(set(loads))  # once in each
    np.testing.assert_array_equal(batch.mean, alone.mean)
