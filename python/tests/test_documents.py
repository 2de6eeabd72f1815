"""Examples in docstrings and documents are run; types are those of the running library."""

import doctest
import importlib.util
import subprocess
import sys
import unittest

import schedlab
from schedlab import _ask, _plot, _run

from .made import ROOT, inside

OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def missing(name: str) -> bool:
    """Says so where a tool is not installed."""
    if importlib.util.find_spec(name) is None:
        print(f"MISSING: the Python package {name}: not checked here", file=sys.stderr)
        return True
    return False


class Examples(unittest.TestCase):
    def test_examples_of_docstrings_print_what_they_say(self):
        tried = 0
        for module in (schedlab, _ask, _plot, _run):
            with inside():
                done = doctest.testmod(module, optionflags=OPTIONS)
            self.assertEqual(done.failed, 0, module.__name__)
            tried += done.attempted
        self.assertGreater(tried, 8)

    def test_examples_of_the_page_print_what_they_say(self):
        with inside():
            page = str(ROOT / "docs" / "python.md")
            done = doctest.testfile(page, module_relative=False, optionflags=OPTIONS)
        self.assertEqual(done.failed, 0)
        self.assertGreater(done.attempted, 10)


class Notebook(unittest.TestCase):
    def test_the_notebook_runs_from_its_first_cell_to_its_last(self):
        if missing("nbclient") or missing("ipykernel"):
            return
        import nbformat
        from nbclient import NotebookClient

        book = nbformat.read(ROOT / "python" / "waits.ipynb", as_version=4)
        with inside():
            client = NotebookClient(book, timeout=120, kernel_name="python3")
            client.execute()
        outputs = [cell.outputs for cell in book.cells if cell.cell_type == "code"]
        self.assertGreater(len(outputs), 5)
        self.assertTrue(any("image/svg+xml" in str(shown) for shown in outputs), "a picture is shown")
        # A cell that fails raises; the last one checks the whole.
        self.assertIn("as the command says", str(outputs[-1]))


class Types(unittest.TestCase):
    def test_the_stubs_are_those_of_the_library(self):
        if missing("mypy"):
            return
        words = [sys.executable, "-m", "mypy.stubtest", "schedlab", "--ignore-disjoint-bases"]
        with inside():
            done = subprocess.run(words, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
