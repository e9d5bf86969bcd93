"""Makes the pictures of the web page for the documentation: ``make screenshots``.

Makes a catalog in a temporary folder, serves it with ``lancecy ui``, and takes pictures with Chromium, whose path is in
``LANCECY_CHROMIUM``. The rows are the same in every run; times of versions are not.
"""

from __future__ import annotations

import datetime as dt
import io
import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import lance_namespace as ln
import numpy as np
import pyarrow as pa
from PIL import Image, ImageDraw
from playwright.sync_api import sync_playwright

import lancecy
from lancecy.namespace import DirectoryNamespace

IMAGES = Path(__file__).resolve().parent.parent / ".docs" / "images"
SIZE = {"width": 1180, "height": 720}
ORDERS = "id=sales&id=orders"
SHOTS = {
    "overview": (f"/table/overview?{ORDERS}", "light"),
    "rows": ("/table/rows?id=ml&id=photos", "light"),
    "explain": (f"/table/explain?{ORDERS}&filter=order_id+%3C+1200+AND+city+%3D+%27Oslo%27&count=1", "light"),
    "layout": (f"/table/layout?{ORDERS}&check=1", "light"),
    "versions": (f"/table/versions?{ORDERS}", "dark"),
}
CITIES = ("Oslo", "Bergen", "Trondheim", "Bodø")
WORDS = ("harbour", "mountain", "street", "forest", "bridge", "market", "island", "station")


def orders(first: int, count: int, random: np.random.Generator) -> pa.Table:
    """Rows of a shop."""
    number = np.arange(first, first + count)
    return pa.table(
        {
            "order_id": number,
            "city": [CITIES[n % 4] for n in number],
            "amount": np.round(random.gamma(2, 40, count), 2),
            "day": [dt.date(2026, 1, 1) + dt.timedelta(days=int(n) // 40) for n in number],
            "note": ["gift" if n % 3 == 0 else None for n in number],
        }
    )


def picture(number: int, random: np.random.Generator) -> bytes:
    """A landscape of few colours, as PNG or JPEG."""
    sky, hill = (tuple(int(c) for c in random.integers(low, low + 90, 3)) for low in (140, 60))
    image = Image.new("RGB", (96, 64), sky)
    draw = ImageDraw.Draw(image)
    draw.ellipse((60 - number % 40, 8, 76 - number % 40, 24), fill=(250, 240, 200))
    draw.polygon([(0, 64), (10 + number % 30, 26), (48, 52), (70, 34), (96, 64)], fill=hill)
    data = io.BytesIO()
    image.save(data, "PNG" if number % 2 else "JPEG")
    return data.getvalue()


def photos(count: int, random: np.random.Generator) -> pa.Table:
    """Pictures with vectors."""
    vectors = np.cumsum(random.normal(size=(count, 768)), 1).astype(np.float32)
    return pa.table(
        {
            "id": pa.array(range(count)),
            "caption": [f"a {WORDS[n % 8]} near a {WORDS[(n * 3 + 1) % 8]}" for n in range(count)],
            "image": pa.array([picture(n, random) for n in range(count)], pa.binary()),
            "embedding": pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), 768),
            "camera": [
                {"make": ("Hasselblad", "Leica")[n % 2], "iso": 100 << n % 4, "tags": list(WORDS[: n % 4])}
                for n in range(count)
            ],
        }
    )


def make_catalog(root: Path) -> None:
    """Namespaces and tables as a small company has them."""
    random = np.random.default_rng(7)
    ns = DirectoryNamespace(root=str(root))
    for name in (["sales"], ["sales", "archive"], ["ml"]):
        ns.create_namespace(ln.CreateNamespaceRequest(id=name, properties={"owner": "data team"}))
    disks = [lancecy.DatasetBasePath(str(root / name), name) for name in ("disk2", "disk3")]
    ds = lancecy.write_dataset(
        orders(0, 4000, random),
        namespace=ns,
        table_id=["sales", "orders"],
        max_rows_per_file=1000,
        initial_bases=disks,
        target_bases=["disk2", "disk3"],
        commit_message="first load",
    )
    ds.tags.create("v1.0")
    ds.append(orders(4000, 1500, random), commit_message="February")
    branch = ds.create_branch("team/prices")
    branch.update({"amount": "amount * 1.1"}, where="city = 'Oslo'")
    ds.delete("order_id < 120")
    ds.append(orders(5500, 2500, random), target_bases=["disk3"], commit_message="March")
    ds.create_scalar_index("order_id", "BTREE")
    ds.tags.create("v1.1")
    branch.append(orders(9000, 300, random))
    lancecy.write_dataset(photos(60, random), namespace=ns, table_id=["ml", "photos"])
    for name in (["sales", "customers"], ["sales", "returns"], ["sales", "suppliers"], ["events"]):
        lancecy.write_dataset(orders(0, 50, random), namespace=ns, table_id=name)
    lancecy.write_dataset(orders(0, 50, random), root / "weather.lance")


def take(browser: Any, url: str, name: str, path: str, scheme: str) -> None:
    """Take one picture."""
    context = browser.new_context(viewport=SIZE, color_scheme=scheme)
    page = context.new_page()
    page.goto(url)
    page.goto(url.partition("/?")[0] + path)
    page.wait_for_load_state("networkidle")
    image = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    # A palette is enough for text and bars, and takes a third of the bytes.
    image.quantize(256, dither=Image.Dither.NONE).save(IMAGES / f"ui-{name}.png", optimize=True)
    context.close()


def main() -> None:
    """Make all pictures."""
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "catalog"
        root.mkdir()
        make_catalog(root)
        command = [sys.executable, "-m", "lancecy", "ui", str(root)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as served:
            url = next(re.findall(r"http\S+", line)[0] for line in served.stdout or () if "http" in line)
            with sync_playwright() as engine:
                arguments = ["--no-sandbox", "--disable-dev-shm-usage"]
                browser = engine.chromium.launch(
                    executable_path=os.environ["LANCECY_CHROMIUM"], args=arguments
                )
                for name, (path, scheme) in SHOTS.items():
                    take(browser, url, name, path, scheme)
                browser.close()
            served.send_signal(signal.SIGINT)
    for image in sorted(IMAGES.glob("ui-*.png")):
        print(f"{image.name}: {image.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
