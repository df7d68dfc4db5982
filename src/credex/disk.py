"""Explain a batch into a folder, part by part, and go on with one that was stopped.

A part holds the digest of its rows. A job that goes on compares manifest, digests and the model's
answers with those of the job that was stopped, and explains the parts that are not there.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields
from operator import length_hint
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from credex.batch import Job, TimeUpError, interruption
from credex.batch_folder import FORMAT, MANIFEST, VERSION, Folder, as_json
from credex.cells import display
from credex.domains import Tabular
from credex.engines.local import Block, Done, run
from credex.errors import InputError
from credex.explainer_base import on_screen
from credex.frames import TIDY
from credex.portfolio import Work, blocks_of, dense, length
from credex.progress import progress_bar
from credex.saved_batch import SavedBatch, facts, parquet, parquet_of, read_batch, read_part

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["explain_to_folder"]

CHECKED_ROWS = 16
"""Rows of the first part whose predictions are asked again when a job goes on."""

SAME_PREDICTION = 1e-4
"""Difference of two predictions, by the largest one, that single precision explains."""


def explain_to_folder(
    work: Work,
    X: Any,
    out: str | Path,
    *,
    resume: bool,
    overwrite: bool,
    partition_rows: int,
    n_workers: int,
    progress: bool | None,
    engine: Callable[[Work, Iterable[Block], int], Iterator[Done]] = run,
) -> SavedBatch:
    """Explain ``X`` part by part into a folder; see `Explainer.explain_many`.

    ``engine`` explains blocks of rows, in any order; by default joblib's workers do. An iterator
    ``X`` may say how many rows it has by ``__length_hint__``.
    """
    parquet()  # missing? say so before the model is asked
    if resume and overwrite:
        raise InputError("resume=True and overwrite=True contradict each other; give one")
    folder = Folder(Path(out))
    manifest = _manifest(work, partition_rows)
    with folder.writing():
        folder.prepare(manifest, resume=resume, overwrite=overwrite)
        jobs = _Jobs(work, folder, partition_rows, X)
        if _explain_parts(jobs, n_workers, progress, engine):
            done = {**manifest, **jobs.totals, "complete": True}
            folder.write(MANIFEST, as_json(done))
    return read_batch(folder.path)


def _explain_parts(
    jobs: _Jobs,
    n_workers: int,
    progress: bool | None,  # noqa: FBT001
    engine: Callable[[Work, Iterable[Block], int], Iterator[Done]],
) -> bool:
    """Explain and save the parts that are not there; ``False`` if the time was up before."""
    X = jobs.X
    total = (length_hint(X) or None) if hasattr(X, "__next__") else length(X)
    with progress_bar("explaining", total, show=on_screen(progress)) as bar:
        try:
            for done in engine(jobs.work.started(), jobs.todo(bar.update), n_workers):
                jobs.save(done)
                bar.update(jobs.sizes.pop(done.number))
        except TimeUpError:
            return False
        except KeyboardInterrupt as cause:
            path = jobs.folder.path
            left = read_batch(path)
            msg = f"{len(left):,} rows are safe in {str(path)!r}, and "
            stop = interruption(
                cause, msg + "explain_many(X, out=…, resume=True) goes on with them"
            )
            stop.partial = left
            raise stop from cause
    return True


@dataclass
class _Jobs:
    """Which parts are there, which are to do, and what was done."""

    work: Work
    folder: Folder
    partition_rows: int
    X: Any

    def __post_init__(self) -> None:
        self.sizes: dict[int, int] = {}
        self.digests: dict[int, str] = {}
        self.totals: dict[str, Any] = {"rows": 0, "parts": 0}
        self._ids: list[Any] = []
        self._clock: dict[int, float] = {}

    def todo(self, skipped: Callable[[int], Any]) -> Iterator[Block]:
        """Yield the blocks whose parts are not there; check those that are."""
        first = 0
        cut = blocks_of(self.X, self.partition_rows, self.work.explainer.domain)
        for number, rows in enumerate(block for block in cut if length(block)):
            n, digest = length(rows), digest_of(rows, self.work)
            self._check_ids(rows, first, number)
            path = self.folder.part(number)
            if path.exists():
                self._check_part(path, rows, digest, number)
                skipped(n)
            else:
                self.sizes[number], self.digests[number] = n, digest
                self._clock[number] = time.time()
                yield Block(number, first, rows)
            first += n
            self.totals = {"rows": first, "parts": number + 1}
        extra = self.folder.part(self.totals["parts"])
        if extra.exists():
            msg = f"{str(self.folder.path)!r} holds more parts than the {first} rows make "
            raise InputError(msg + f"({extra.name}): it is a batch of other rows")

    def _check_part(self, path: Path, rows: Any, digest: str, number: int) -> None:
        if facts(path)["digest"] != digest:
            msg = f"{path.name} in {str(self.folder.path)!r} was made of other rows than part "
            msg += f"{number} of the input now. Use another folder, or overwrite=True"
            raise InputError(msg)
        if number == 0:
            check_model(self.work, rows, read_part(path, None), self.folder.path)

    def _check_ids(self, rows: Any, first: int, number: int) -> None:
        """Raise if an id was there in an earlier part; 8 bytes are kept for each row."""
        if not hasattr(rows, "columns"):
            return  # rows are named by their position
        import pandas as pd

        ids = self.work.of_type(rows).ids(rows, first)
        hashes = pd.util.hash_pandas_object(ids, index=False).to_numpy()
        for earlier in self._ids:
            both = np.isin(hashes, earlier)
            if both.any():
                twice = display(ids.iloc[int(np.argmax(both))])
                msg = f"the id {twice} of part {number} is in an earlier part, too; give id= a "
                raise InputError(msg + "column that is unique")
        self._ids.append(hashes)
        if len(self._ids) > 16:
            self._ids = [np.concatenate(self._ids)]

    def save(self, done: Done) -> None:
        """Write a part and its line of the log."""
        n = self.sizes[done.number]
        kept = {"digest": self.digests.pop(done.number), "rows": n, "version": VERSION}
        self.folder.write(self.folder.part(done.number).name, parquet_of(done.frame, kept))
        line = {"part": done.number, "rows": n, "errors": int(done.frame["error"].notna().sum())}
        line |= {"model_rows": done.model_rows, "calls": done.calls}
        seconds = time.time() - self._clock.pop(done.number)
        self.folder.append_log({**line, "seconds": round(seconds, 3)})


def check_model(work: Work, rows: Any, frame: pd.DataFrame, path: Path) -> None:
    """Raise if the model does not predict what it predicted for the first rows of the batch."""
    if work.options.noisy:
        return
    work = work.of_type(rows)
    head = rows.iloc[:CHECKED_ROWS] if hasattr(rows, "iloc") else rows[:CHECKED_ROWS]
    instances = work.instances(head)
    job = Job(work.explainer, instances, [work.cohort] * len(instances), work.goals, work.options)
    queue, lines = work.queue(), frame[frame["error"].isna()]
    scale = float(lines["prediction"].abs().max()) if len(lines) else 0.0
    for i, name in enumerate(work.ids(head)):
        before = lines[lines["row"] == name].drop_duplicates("output")["prediction"].to_numpy()
        if not len(before):
            continue
        design = job.begin(i, None, queue).design
        now = design.linked(queue.box.ask(design.neighbourhood.instance_inputs(), 1).y)[0]
        if len(now) != len(before) or np.any(np.abs(now - before) > SAME_PREDICTION * scale):
            msg = f"{str(path)!r} holds a batch of another model: for row {name!r} that one "
            msg += f"predicted {before[0]:.6g}, this one predicts {now[0]:.6g}. "
            raise InputError(msg + "Use another folder, or overwrite=True")


def digest_of(rows: Any, work: Work) -> str:
    """Return 32 characters that change with any value, label or cohort of a block."""
    out = hashlib.blake2b(repr(work.cohort).encode(), digest_size=16)
    block = dense(rows)
    if hasattr(block, "columns"):
        import pandas as pd

        frame = block if hasattr(block, "iloc") else pd.DataFrame(block.to_dict(as_series=False))
        out.update("\n".join(map(str, frame.columns)).encode())
        text = frame.astype({n: "string" for n, t in frame.dtypes.items() if t.kind == "O"})
        hashes = pd.util.hash_pandas_object(text, index=hasattr(block, "iloc"))
        out.update(hashes.to_numpy().tobytes())
    elif isinstance(block, np.ndarray) and block.dtype != object:
        out.update(f"{block.shape} {block.dtype}".encode())
        out.update(block.tobytes())
    else:
        for x in work.instances(block):
            out.update(_instance_text(work, x).encode())
    return out.hexdigest()


def _instance_text(work: Work, x: Any) -> str:
    try:
        return json.dumps(work.explainer.domain.at(x).payload(), default=str)
    except InputError as error:  # recorded when it is its turn
        return f"{type(x).__name__} {error}"


def _manifest(work: Work, partition_rows: int) -> dict[str, Any]:
    """Return what tells batches apart, and what a reader may want to know."""
    from importlib.metadata import version  # slow to import

    explainer, domain, goals = work.explainer, work.explainer.domain, work.goals
    model = explainer.model if isinstance(explainer.model, type) else type(explainer.model)
    options = {**work.options.stored(), "level": work.options.level, "seed": int(work.options.seed)}
    options |= {name: _text(getattr(work.options, name)) for name in ("kernel", "sampler")}
    options |= {"posterior": _text(work.options.posterior)}
    options |= {"query_seconds": work.options.query_seconds}
    data = None
    if isinstance(domain, Tabular):
        data = explainer._digest(domain.at_background())  # noqa: SLF001
    of = {
        "method": explainer.method,
        "domain": type(domain).__name__,
        "training data": data,
        "goals": {f.name: _text(getattr(goals, f.name)) for f in fields(goals)},
        "options": options,
        "cohort": _text(work.cohort),
        "ids": {"id": work.id, "keep": list(work.keep)},
        "partition_rows": partition_rows,
        "columns": list(TIDY),
    }
    about = {"model": model.__name__, "credex": version("credex")}
    return {"format": FORMAT, "version": VERSION, "complete": False, **about, "of": of}


def _text(value: Any) -> Any:
    """Return plain values as they are, others as text without addresses in memory."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))
