"""Configuration of Sphinx, for ``make docs``."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import lancecy

project = "lancecy"
author = "the lancecy developers"
version = release = lancecy.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
html_theme = "furo"
html_title = f"lancecy {release}"
exclude_patterns = ["_build"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
napoleon_numpy_docstring = True
napoleon_google_docstring = False
napoleon_use_ivar = True
nitpicky = False
# Types of other libraries are written as in their documentation and not resolved.
suppress_warnings = ["ref.python"]
