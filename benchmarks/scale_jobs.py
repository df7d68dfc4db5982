"""The jobs of `benchmarks.scale`: Parquet to Parquet by one engine, watched from outside.

Each runs in a process of its own: ``python -m benchmarks.scale_jobs ENGINE ROWS FOLDER`` prints its
figures as JSON. The engine is started and has explained some rows before the clock starts.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier

import credex as cx

COLUMNS, QUERIES, TREES, FILE_ROWS, WORKERS = 20, 200, 50, 1_000, 2
NAMES = [f"x{i:02d}" for i in range(COLUMNS)]
WARM = 2
"""Files that are explained before the clock starts: workers are up and have loaded the model."""

GOALS: dict[str, Any] = {"queries": QUERIES, "id": "row_id"}
SERVERS = {"java", "raylet", "gcs_server"}
"""Processes that are neither ours nor workers in Python."""


class Boosted:
    """A LightGBM classifier on one thread: the probability of class 1, of frames and arrays."""

    def __init__(self) -> None:
        import lightgbm

        X, y = make_classification(2_000, COLUMNS, n_informative=8, random_state=0)
        self.train = X
        model = lightgbm.LGBMClassifier(n_estimators=TREES, num_leaves=15, n_jobs=1, verbose=-1)
        self.booster = model.fit(X, y).booster_

    def __call__(self, rows: Any) -> np.ndarray:
        """Predict."""
        return np.asarray(self.booster.predict(np.asarray(rows), num_threads=1))


class Forest(Boosted):
    """A random forest of scikit-learn, whose calls take longer; for the comparison with peers."""

    def __init__(self) -> None:
        X, y = make_classification(2_000, COLUMNS, n_informative=8, random_state=0)
        self.train = X
        self.forest = RandomForestClassifier(100, random_state=0, n_jobs=1).fit(X, y)

    def __call__(self, rows: Any) -> np.ndarray:
        """Predict."""
        return np.asarray(self.forest.predict_proba(np.asarray(rows))[:, 1])


def explainer(kind: type = cx.BayesSHAP, model: Boosted | None = None) -> Any:
    """Return the explainer of every job."""
    model = model or Boosted()
    train = pd.DataFrame(model.train, columns=NAMES)
    return kind(model, reference(model.train) if kind is cx.BayesSHAP else train)


def reference(train: np.ndarray) -> pd.DataFrame:
    """Return the median row, the one background row of BayesSHAP and of shap."""
    return pd.DataFrame(train, columns=NAMES).median().to_frame().T


def rows(n: int, seed: int = 1) -> pd.DataFrame:
    """Rows to explain, with ids."""
    X, _ = make_classification(n, COLUMNS, n_informative=8, random_state=seed)
    return pd.DataFrame(X, columns=NAMES).assign(row_id=np.arange(n))


def write_rows(n: int, folder: Path) -> None:
    """Write the rows as files of `FILE_ROWS`, unless they are there."""
    if folder.exists():
        return
    part = folder.with_suffix(".tmp")
    part.mkdir(parents=True, exist_ok=True)
    table = rows(n)
    for start in range(0, n, FILE_ROWS):
        block = table.iloc[start : start + FILE_ROWS]
        block.to_parquet(part / f"{start:08d}.parquet", index=False)
    part.rename(folder)


class Watch:
    """Wall clock, processor time and peak memory of this process and its descendants."""

    def __init__(self) -> None:
        import psutil

        self.gone = (psutil.NoSuchProcess, psutil.AccessDenied)
        self.me, self.stop = psutil.Process(), threading.Event()
        self.spent: dict[int, float] = {}
        self.peak = {"main": 0, "workers": 0, "servers": 0}

    def look(self) -> None:
        """Note what each process has spent and holds."""
        now = dict.fromkeys(self.peak, 0)
        for process in [self.me, *self.me.children(recursive=True)]:
            try:
                with process.oneshot():
                    used, name = process.cpu_times(), process.name()
                    self.spent[process.pid] = used.user + used.system
                    kind = "servers" if name in SERVERS else "workers"
                    now["main" if process == self.me else kind] += process.memory_info().rss
            except self.gone:
                continue
        self.peak = {kind: max(self.peak[kind], now[kind]) for kind in now}

    def _looking(self) -> None:
        while not self.stop.wait(0.2):
            self.look()

    @contextmanager
    def running(self) -> Iterator[dict[str, Any]]:
        """Measure the block; the figures are there when it is left."""
        found: dict[str, Any] = {}
        self.look()
        before, machine = sum(self.spent.values()), _busy()
        thread = threading.Thread(target=self._looking, daemon=True)
        thread.start()
        begun = time.perf_counter()
        yield found
        found["seconds"] = time.perf_counter() - begun
        self.stop.set()
        thread.join()
        self.look()
        found["cpu"] = sum(self.spent.values()) - before
        found["others"] = max((_busy() - machine - found["cpu"]) / found["seconds"], 0.0)
        found["peak"] = {kind: n / 2**20 for kind, n in self.peak.items()}


def _busy() -> float:
    """Seconds that all processors of the machine were busy."""
    import psutil

    now = psutil.cpu_times()
    return float(now.user + now.system + now.nice + now.irq + now.softirq)


def local(n_jobs: int) -> Callable[[Path], Callable[[Path, Path], None]]:
    """Processes of this machine, by ``explain_many(out=…)``."""

    def start(_scratch: Path) -> Callable[[Path, Path], None]:
        explain = explainer().explain_many

        def job(source: Path, out: Path) -> None:
            frames = (pd.read_parquet(file) for file in sorted(source.glob("*.parquet")))
            explain(frames, out=out, n_jobs=n_jobs, partition_rows=FILE_ROWS, **GOALS)

        return job

    return start


def dask(scratch: Path) -> Callable[[Path, Path], None]:
    """A LocalCluster of dask."""
    import dask.dataframe as dd
    from distributed import Client, LocalCluster

    from credex.engines import dask as engine

    options = {"dashboard_address": None, "silence_logs": 50, "local_directory": str(scratch)}
    client = Client(LocalCluster(n_workers=WORKERS, threads_per_worker=1, **options))
    explained = explainer()

    def job(source: Path, out: Path) -> None:
        assert client.status == "running"
        frame = dd.read_parquet(str(source))
        engine.explain(explained, frame, **GOALS).to_parquet(str(out), write_index=False)

    return job


def ray(scratch: Path) -> Callable[[Path, Path], None]:
    """Ray on this machine."""
    (scratch / "token").write_text(secrets.token_hex(32))  # else Ray writes one into the home
    os.environ |= {"RAY_AUTH_TOKEN_PATH": str(scratch / "token"), "RAY_USAGE_STATS_ENABLED": "0"}
    os.environ["RAY_DATA_PARQUET_FOOTER_NUM_ACTORS"] = str(WORKERS)  # else 32 processes
    import ray

    from credex.engines import ray as engine

    ray.init(
        num_cpus=WORKERS,
        include_dashboard=False,
        object_store_memory=500 * 2**20,
        _node_ip_address="127.0.0.1",
        logging_level="ERROR",
        log_to_driver=False,
    )
    ray.data.DataContext.get_current().enable_progress_bars = False
    explained = explainer()

    def job(source: Path, out: Path) -> None:
        given = ray.data.read_parquet(str(source))
        engine.explain(explained, given, **GOALS).write_parquet(str(out))

    return job


def spark(scratch: Path) -> Callable[[Path, Path], None]:
    """Spark, local[2]."""
    from pyspark.sql import SparkSession

    from credex.engines import spark as engine

    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master(f"local[{WORKERS}]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "1g")
        .config("spark.local.dir", str(scratch))
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", FILE_ROWS)
        .config("spark.sql.files.maxPartitionBytes", 16 * 2**20)
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    explained = explainer()

    def job(source: Path, out: Path) -> None:
        engine.explain(explained, session.read.parquet(str(source)), **GOALS).write.parquet(
            str(out)
        )

    return job


ENGINES: dict[str, Callable[[Path], Callable[[Path, Path], None]]] = {
    "local, 1 process": local(1),
    "local, 2 processes": local(2),
    "dask": dask,
    "ray": ray,
    "spark": spark,
}


def result_of(out: Path) -> dict[str, Any]:
    """Return a digest of all estimates and intervals, and how many rows and how wide they are."""
    names = ["row", "feature", "estimate", "lower", "upper", "error"]
    files = sorted(out.glob("**/*.parquet"))
    frame = pd.concat([pd.read_parquet(file, columns=names) for file in files])
    assert frame["error"].isna().all()
    frame = frame.astype({"row": np.int64}).sort_values(["row", "feature"])
    values = frame[["estimate", "lower", "upper"]].to_numpy(np.float64)
    digest = hashlib.blake2b(np.ascontiguousarray(values).tobytes(), digest_size=8)
    width = float(np.median(values[:, 2] - values[:, 1]))
    return {"rows": frame["row"].nunique(), "digest": digest.hexdigest(), "width": width}


def measure(name: str, n: int, folder: Path) -> dict[str, Any]:
    """Start an engine, warm it up, run the job and describe what it wrote."""
    scratch = folder / f"{os.getpid()}"
    scratch.mkdir(parents=True)
    source, warm = folder / f"rows-{n}", folder / f"rows-{WARM * FILE_ROWS}"
    write_rows(n, source)
    write_rows(WARM * FILE_ROWS, warm)
    begun = time.perf_counter()
    job = ENGINES[name](scratch)
    job(warm, scratch / "warm")
    started = time.perf_counter() - begun
    with Watch().running() as found:
        job(source, scratch / "out")
    found |= {"engine": name, "start": started, **result_of(scratch / "out")}
    assert found["rows"] == n
    shutil.rmtree(scratch, ignore_errors=True)
    return found


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))))
