"""A local web page that shows the tables of a directory: ``lancecy ui ROOT``. Nothing is changed by it.

==============  =================================================================
``options``     what is served, and how much of it is shown at most
``guard``       who may ask: token, cookie, host, method; headers of every answer
``roots``       names of namespaces and tables, and opening a table
``references``  versions in addresses
``deadline``    the time that a page may take
``found_rows``  rows that pass a filter, under the bounds
``cells``       values as text, lines and pictures
``pictures``    images in columns
``figures``     sizes, nulls, bases and fragments as numbers
``charts``      the numbers as shapes
``texts``       names, numbers and times as text
``pages``       addresses and what their pages show
``server``      the program that listens
==============  =================================================================

Needs Flask (``pip install 'lancecy[ui]'``).

Examples
--------
>>> from lancecy.ui import UiOptions, application
>>> app = application(UiOptions("example.lance"), token="secret")
>>> client = app.test_client()
>>> client.get("/").status_code, client.get("/?token=secret").status_code
(403, 303)
>>> "1,000" in client.get("/table/overview").text
True
"""

from __future__ import annotations

from lancecy.errors import needing

with needing(__name__, "ui"):
    from lancecy.ui.options import Bounds, UiOptions
    from lancecy.ui.pages import application
    from lancecy.ui.server import serve

__all__ = ["Bounds", "UiOptions", "application", "serve"]
