import ctypes
import os
from pathlib import Path
import subprocess
import sys

import pytest

import ucudnn
from ucudnn import errors, library

NAME = "libucudnn_solve.so.1"
ROOT = Path(__file__).parents[2]


def test_tells_the_projects_version():
    project = (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")
    assert f"project(ucudnn VERSION {ucudnn.__version__} " in project
    assert "Session" in dir(ucudnn) and "rest" not in dir(ucudnn)


def test_is_found_by_folder_or_by_file(monkeypatch):
    folder = Path(os.environ["UCUDNN_LIBRARY"])
    monkeypatch.setenv("UCUDNN_LIBRARY", str(folder))
    assert isinstance(library.load(NAME), ctypes.CDLL)
    monkeypatch.setenv("UCUDNN_LIBRARY", str(folder / "libucudnn_solve.so"))
    assert isinstance(library.load(NAME), ctypes.CDLL)


def test_says_where_it_looked(monkeypatch):
    monkeypatch.setenv("UCUDNN_LIBRARY", "/nowhere")
    with pytest.raises(ucudnn.LibraryNotFound, match="/nowhere/libucudnn"):
        library.load(NAME)
    monkeypatch.delenv("UCUDNN_LIBRARY")
    with pytest.raises(ucudnn.LibraryNotFound, match="set UCUDNN_LIBRARY to"):
        library.load("libucudnn_none.so.1")


def test_is_found_by_the_loader(tmp_path):
    environment = dict(os.environ, LD_LIBRARY_PATH=os.environ["UCUDNN_LIBRARY"])
    del environment["UCUDNN_LIBRARY"]
    subprocess.run(
        [sys.executable, "-c",
         "import ucudnn; ucudnn.assign(ucudnn.Times([ucudnn.Time('a', 1, 2.0)"
         "]), 1)"],
        check=True, env=environment, cwd=tmp_path,
    )  # fmt: skip


def test_import_needs_no_library(tmp_path):
    environment = dict(os.environ, UCUDNN_LIBRARY="/nowhere")
    subprocess.run(
        [sys.executable, "-c",
         "import ucudnn; assert 'matplotlib' not in __import__('sys').modules"],
        check=True, env=environment, cwd=tmp_path,
    )  # fmt: skip


def test_says_what_an_older_library_lacks():
    with pytest.raises(ucudnn.LibraryNotFound, match="no ucudnn_solve_later"):
        library.ask_solver("later", "")


def test_errors_have_grpcs_numbers():
    for kind, code in (
        (ucudnn.InvalidArgument, 3),
        (ucudnn.NotFound, 5),
        (ucudnn.NoPlan, 9),
    ):
        assert kind("").code == code
        assert type(errors.error_of(code, "")) is kind
    assert errors.error_of(13, "").code == 13
    assert errors.error_of(9, "", 512).least == 512
    assert errors.error_of(9, "").least is None
