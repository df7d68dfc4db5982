"""The page's own files: styles, scripts and the template, as text to be put into one page."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from typing import Any

from credex.markup import DARK, LIGHT

COLOURS = f"""
:root,:root[data-theme="light"]{{{LIGHT}}}
@media (prefers-color-scheme:dark){{:root:not([data-theme="light"]){{{DARK}}}}}
:root[data-theme="dark"]{{{DARK}}}
@media print{{:root:root:root{{{LIGHT}}}}}
"""
"""The colours of all HTML of credex, for pages with a choice of light or dark."""


def read(name: str) -> str:
    """Return a file of this folder."""
    from importlib.resources import files  # takes longer to import than this package

    return files("credex.report").joinpath(name).read_text(encoding="utf-8")


def style(*names: str) -> str:
    """Return the styles of the components, and of further files of this folder."""
    return COLOURS + "".join(map(read, ("components.css", *names)))


def script(*names: str) -> str:
    """Return the script of the components, and of further files of this folder."""
    return "".join(map(read, ("components.js", *names)))


def json_for_script(data: Any) -> str:
    r"""Return JSON that can stand inside ``<script>``: nothing in it ends or opens a tag.

    Examples
    --------
    >>> json_for_script({"name": "</script>"})
    '{"name":"\\u003c/script\\u003e"}'
    """
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))  # all letters in ASCII
    return text.translate({ord(c): f"\\u{ord(c):04x}" for c in "<>&"})


def policy(style_text: str, script_text: str) -> str:
    """Return a Content-Security-Policy that allows these two texts and embedded pictures only."""

    def source(text: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    return (
        f"default-src 'none'; style-src {source(style_text)}; script-src {source(script_text)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def page(title: str, kicker: str, audit: str, data: Any) -> str:
    """Return the page; ``title``, ``kicker`` and ``audit`` are HTML, ``data`` plain values."""
    style_text, script_text = style("page.css"), script("page.js")
    parts = {
        "title": title,
        "kicker": kicker,
        "audit": audit,
        "style": style_text,
        "script": script_text,
        "policy": policy(style_text, script_text),
        "data": json_for_script(data),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda m: parts[m[1]], read("page.html"))
