"""Laconic is a backend of Annif. `make test-annif` runs this with a real Annif; without one most of it is skipped."""

import json
import os
import re
import subprocess
import sys
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path

import pytest

needs_annif = pytest.mark.skipif(find_spec("annif") is None, reason="Annif is not installed")
VOCABULARY = "<http://example.org/birds>\tbirds\n<http://example.org/wolf>\twolf\n<http://example.org/moss>\tmosses\n"
TITLES = {"The lives of birds": ["birds"], "Wolves of the north": ["wolf"], "Birds and wolves": ["birds", "wolf"]}
PROJECTS = """
[nearest]
language=en
vocab=nature
backend=laconic
method=nearest
allow_learn=true
set.neighbours=5

[wrong-method]
language=en
vocab=nature
backend=laconic
method=nerest

[wrong-setting]
language=en
vocab=nature
backend=laconic
method=nearest
set.neighbors=5

[both]
language=en
vocab=nature
backend=ensemble
sources=nearest
"""


def corpus(titles):
    subjects = {title: " ".join(f"<http://example.org/{name}>" for name in names) for title, names in titles.items()}
    return "".join(f"{title}\t{names}\n" for title, names in subjects.items())


def annif(folder, *arguments, given=""):
    command = [Path(sys.executable).with_name("annif"), *arguments]
    return subprocess.run(command, cwd=folder, input=given, capture_output=True, text=True, check=False)


def suggested(folder, project, text):
    lines = annif(folder, "suggest", project, given=text).stdout.splitlines()
    return [(address.strip("<>"), float(score)) for address, _, score in (line.split("\t") for line in lines)]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("annif")
    (folder / "projects.cfg").write_text(PROJECTS)
    (folder / "vocabulary.tsv").write_text(VOCABULARY)
    (folder / "train.tsv").write_text(corpus(TITLES))
    for arguments in (
        ["load-vocab", "nature", "vocabulary.tsv", "--language", "en"],
        ["train", "nearest", "train.tsv"],
    ):
        done = annif(folder, *arguments)
        assert done.returncode == 0, done.stderr
    return folder


def test_the_command_that_other_programs_of_flask_load_does_nothing_without_annif():
    code = "import sys, laconic.integrations.annif; print('annif' in sys.modules, 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False False\n"


@needs_annif
def test_annifs_command_line_loads_it():
    assert "laconic" in entry_points(group="flask.commands").names


@needs_annif
@pytest.mark.parametrize("project", ["nearest", "both"])
def test_suggestions_are_those_of_the_model_folder(trained, project):
    from laconic import Laconic

    model = Laconic.load(trained / "data" / "projects" / "nearest" / "laconic-model")
    text = "A guide to birds, wolves and mosses"
    answers = model.predict(text, k=100)
    largest = max(1.0, answers[0].score)
    expected = [(label, pytest.approx(score / largest, abs=1e-4)) for label, score in answers if score > 0]
    assert suggested(trained, project, text) == expected
    assert "http://example.org/moss" in dict(answers)  # no title has it: its name is known


@needs_annif
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_project_is_evaluated_in_one_process_or_several(trained, jobs):
    done = annif(trained, "eval", "nearest", "train.tsv", "--jobs", jobs, "--metrics-file", "figures.json")
    assert done.returncode == 0, done.stderr
    assert json.loads((trained / "figures.json").read_text())["Precision@1"] == 1


@needs_annif
def test_a_model_learns_more(trained):
    (trained / "more.tsv").write_text(corpus({"Sphagnum in bogs": ["moss"], "Bogs of the north": ["moss"]}))
    done = annif(trained, "learn", "nearest", "more.tsv")
    assert done.returncode == 0, done.stderr
    assert suggested(trained, "nearest", "Sphagnum")[0][0] == "http://example.org/moss"


@needs_annif
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "wrong-method", "train.tsv"], "Misconfigured backend 'laconic': .*nerest"),
        (["train", "wrong-setting", "train.tsv"], "Misconfigured backend 'laconic': .*neighbors"),
        (["train", "nearest", "--cached"], "Not supported backend 'laconic': laconic keeps no training data"),
        (["train", "nearest", "empty.tsv"], "no document has a subject of the vocabulary"),
        (["suggest", "wrong-method"], "Project is not trained"),
    ],
)
def test_mistakes_are_errors_of_annif_and_no_tracebacks(trained, arguments, message):
    (trained / "empty.tsv").write_text("a title without a subject\t\n")
    done = annif(trained, *arguments, given="a text")
    assert done.returncode != 0
    assert re.search(message, done.stderr.replace("\n", " ")), done.stderr
    assert "Traceback" not in done.stderr


@needs_annif
def test_a_server_is_told_by_its_configuration(trained):
    code = "import annif; annif.create_flask_app(); print(annif.backend.get_backend('laconic').name)"
    environment = {"ANNIF_CONFIG": "laconic.integrations.annif.config.ProductionConfig"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=trained, env=os.environ | environment, capture_output=True, text=True
    )
    assert done.stdout == "laconic\n", done.stderr
