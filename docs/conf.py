"""Sphinx configuration: MyST pages, API from docstrings, operator and format tables from the code."""

import os
import sys
from importlib.metadata import version as installed
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # for generate.py
os.environ.setdefault("PYVISTA_OFF_SCREEN", "true")

import generate

project = "meshop"
author = "The meshop developers"
version = release = installed("meshop")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "sphinx_design",
]
myst_enable_extensions = ["dollarmath", "colon_fence"]
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_inherit_docstrings = False
autodoc_default_options = {"members": True, "show-inheritance": False}
exclude_patterns = ["_build"]
html_theme = "furo"
html_static_path = ["_static"]

generate.write(Path(__file__).parent)


def setup(app):
    """In the documentation, links to cards in the repository lead to the pages of these."""

    def read(app, page, content):
        if page == "benchmarks":
            content[0] = generate.linked(content[0], "cards/")

    app.connect("source-read", read)
