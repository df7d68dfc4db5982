"""Explain why a spam filter catches a message, and draw it; ``make demo-text`` runs this.

The filter is trained on SpamAssassin's public corpus, which is fetched once. The page is written
to out/text.html; with a Chromium browser on the path also its pictures, light and dark.
"""

import shutil
import subprocess
from pathlib import Path

from PIL import Image, ImageChops
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import credex as cx
from realdata.spam import mails

MESSAGE = """\
Hi Anna, thanks for the minutes of the meeting. I wrote up the list of open bugs and put the \
patch on the server, so that you can test it before Monday.

Congratulations! You have been selected for a free holiday. Click here now to claim your \
guaranteed prize, no money down, 100% risk free! This offer ends tonight.

See you at the workshop, Bob"""

OUT = Path("out")


def picture(page: Path, *, dark: bool) -> Path | None:
    """Take a picture of a page with Chromium, if there is one, and cut off its empty rim."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        return None
    png = page.with_name(f"{page.stem}{'-dark' if dark else ''}.png")
    scheme = ["--blink-settings=preferredColorScheme=0"] if dark else []
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    command += [*scheme, "--force-device-scale-factor=1.5", "--window-size=860,900"]
    command += [f"--screenshot={png}", page.resolve().as_uri()]
    subprocess.run(command, check=True, capture_output=True)  # noqa: S603 - fixed commands
    image = Image.open(png).convert("RGB")
    plain = Image.new("RGB", image.size, image.getpixel((0, 0)))
    left, top, right, bottom = ImageChops.difference(image, plain).getbbox()
    rim = 24
    image.crop((max(left - rim, 0), max(top - rim, 0), right + rim, bottom + rim)).save(png)
    return png


def main() -> None:
    """Train, explain, draw."""
    corpus = mails()
    model = make_pipeline(
        TfidfVectorizer(min_df=3, max_features=20_000), LogisticRegression(C=10, max_iter=2_000)
    ).fit([mail.text for mail in corpus], ["spam" if mail.spam else "fine" for mail in corpus])

    shap = cx.BayesSHAP(model, cx.Text(), target="spam")
    e = shap.explain(MESSAGE, queries=300)
    print(e)
    print()
    print(e.plot.text())

    OUT.mkdir(exist_ok=True)
    page = e.plot.text().save(OUT / "text.html")
    print(f"\nThe page is {page}.")
    for dark in (False, True):
        png = picture(page, dark=dark)
        if png is not None:
            print(f"A picture of it is {png}.")


if __name__ == "__main__":
    main()
