"""The console blocks of docs/cli.md: the commands run, and print what the page says."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import credex
from tests.needs import need

need("pyarrow")

PAGE = Path(__file__).parents[1] / "docs" / "cli.md"
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def commands():
    """Every command of the page and what the page says that it prints."""
    for block in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        for part in ("\n" + block).split("\n$ ")[1:]:
            command, _, printed = part.partition("\n")
            yield command, printed


def words(text):
    """The text without what differs from machine to machine: digits, and so signs and columns."""
    return re.sub(r"[−\d.,e]+|\s+|[-─]+", " ", text).split()


@pytest.mark.slow
def test_commands_print_what_the_page_says(tmp_path):
    source = str(Path(credex.__file__).parents[1])
    python = f"{sys.executable} -m credex"
    env = {**os.environ, "PYTHONPATH": source, "OMP_NUM_THREADS": "1"}
    seen = 0
    for command, printed in commands():
        where = tmp_path / "tumours" if (tmp_path / "tumours").exists() else tmp_path
        line = re.sub(r"\bcredex (?=[a-z])", f"{python} ", command)
        done = subprocess.run(  # noqa: S603
            [str(shutil.which("sh")), "-c", line + " 2>&1"],
            cwd=where,
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
        ours, said = words(done.stdout), words(printed)
        assert len(set(ours) & set(said)) >= 0.8 * len(set(said)), done.stdout
        seen += 1
    assert seen >= 7
