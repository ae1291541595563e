"""The settings of the site: `make docs` builds it into docs/_build/html."""

import os
import sys
from pathlib import Path

import quasir

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))
# Notebooks: offline, quiet, and `!quasir` is the command of this environment.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
os.environ["TRANSFORMERS_VERBOSITY"] = "error"
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])

project = "quasir"
author = "The quasir authors"
project_copyright = author
version = release = quasir.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_copybutton",
    "sphinx_design",
    "glossary_links",
    "live_report",
    "optional_pages",
    "recipe_fields",
]
exclude_patterns = ["_build", "_ext", "notebooks", "**/.ipynb_checkpoints"]
templates_path = ["_templates"]

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
myst_links_external_new_tab = False

nb_execution_mode = "cache"
nb_execution_cache_path = str(HERE / "_build" / "notebooks")
nb_execution_timeout = 1800  # a busy machine may be ten times as slow
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_merge_streams = True
nb_output_stderr = "remove"  # progress

autosummary_generate = True
autodoc_typehints = "none"
default_role = "py:obj"
autodoc_member_order = "groupwise"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

html_theme = "sphinx_book_theme"
html_title = f"quasir {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_theme_options = {
    "show_navbar_depth": 1,
    "collapse_navbar": True,  # or every page would have the whole tree, and take twice as long
    "show_toc_level": 2,
    "use_download_button": False,
    "use_fullscreen_button": False,
    "home_page_in_toc": False,
    "navbar_persistent": [],
    "navbar_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}

# The page of a finished run that the first page shows: `make docs` makes it.
quasir_report = str(HERE / "_build" / "runs" / "scientists" / "report.html")
