"""The verbs as a user types them: a process each, its output, its exit code."""

import io
import json
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import redirect_stderr, redirect_stdout
from unittest import mock

import pytest

from laconic.cli.main import main
from laconic.errors import DataError

TRAIN = [
    ("red rose in the garden", ["flower", "red"]),
    ("white rose", ["flower"]),
    ("yellow tulip in a vase", ["flower"]),
    ("blue sea", ["water"]),
    ("deep blue ocean", ["water"]),
    ("red sea", ["water", "red"]),
]
TEST = [("a rose", ["flower"]), ("the sea is blue", ["water"]), ("red tulip", ["flower", "red"])]


def laconic(*arguments, stdin="", code=0):
    """Runs a verb in this process, which is quicker than a new one; returns what it shows, or its error's message."""
    shown, complained = shown_and_told(*arguments, stdin=stdin, code=code)
    return complained if code else shown


def shown_and_told(*arguments, stdin="", code=0):
    """Run the command line and return its standard output and standard error; the input may be bytes."""
    shown, complained = io.StringIO(), io.StringIO()
    given = stdin if isinstance(stdin, bytes) else stdin.encode()
    with (
        redirect_stdout(shown),
        redirect_stderr(complained),
        mock.patch("sys.argv", ["laconic", *map(str, arguments)]),
        mock.patch("sys.stdin", io.TextIOWrapper(io.BytesIO(given))),
        mock.patch.dict("os.environ", {"COLUMNS": "200", "NO_COLOR": "1"}),
        pytest.raises(SystemExit) as stopped,
    ):
        main()
        sys.exit(0)
    assert stopped.value.code in (code, None), complained.getvalue()
    return shown.getvalue(), complained.getvalue()


def process(*arguments, **options):
    """A verb in a process of its own, for what only a process can show."""
    return subprocess.Popen([sys.executable, "-m", "laconic", *map(str, arguments)], **options)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "planted"
    folder.mkdir()
    for name, rows in (("train", TRAIN), ("test", TEST)):
        records = (json.dumps({"text": text, "labels": labels}) + "\n" for text, labels in rows)
        (folder / f"{name}.jsonl").write_text("".join(records))
    return folder


@pytest.fixture(scope="module")
def model(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "model"
    shown = laconic("train", data, "--method", "nearest", "--out", folder)
    assert "6 texts, 3 labels" in shown
    return folder


def test_train_evaluate_and_predict_are_one_path(data, model, tmp_path):
    shown = laconic("evaluate", model, data, "--json", tmp_path / "figures.json")
    assert "PSP" in shown
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert figures["metrics"]["P@1"] == 100.0
    assert figures["texts"] == 3
    answers = [
        json.loads(line) for line in laconic("predict", model, "-k", 2, "--json", stdin="a rose\nsea\n").splitlines()
    ]
    assert [answer["text"] for answer in answers] == ["a rose", "sea"]
    assert [answer["predictions"][0]["label"] for answer in answers] == ["flower", "water"]
    assert all(len(answer["predictions"]) == 2 for answer in answers)


SMALL = ["--device", "cpu", "--validation", "0"]
for setting in ("epochs=2", "embedding=16", "clusters=2", "top=1"):
    SMALL += ["--set", setting]


@pytest.fixture(scope="module")
def clustered(data, tmp_path_factory):
    """A model with clusters."""
    folder = tmp_path_factory.mktemp("models") / "clustered"
    shown = laconic("train", data, "--method", "syncxml", "--encoder", "bag", "--out", folder, *SMALL)
    assert "inceptionxml+, 6 texts, 3 labels" in shown
    return folder


def figures_of(model, data, path, *more):
    laconic("evaluate", model, data, "--device", "cpu", "--json", path, *more)
    return json.loads(path.read_text())["metrics"]


def test_a_method_goes_by_its_other_name_too(clustered):
    facts = json.loads((clustered / "model.json").read_text())
    assert (facts["method"], facts["config"]["encoder"], facts["config"]["clusters"]) == ("inceptionxml+", "bag", 2)
    assert "inceptionxml+" in laconic("inspect", clustered)


def test_an_encoder_that_a_method_cannot_have_is_refused(data, tmp_path):
    train = ["train", data, "--out", tmp_path / "m"]
    complained = laconic(*train, "--method", "inceptionxml+", "--encoder", "bert", code=2)
    assert re.search("encoder must be inception or bag or cnn.*, but is 'bert'", complained)
    assert "there is no setting 'encoder'" in laconic(*train, "--method", "nearest", "--encoder", "bag", code=2)
    assert not (tmp_path / "m").exists()


def test_how_a_model_answers_can_be_overruled_for_once(clustered, data, tmp_path):
    before = (clustered / "model.json").read_bytes()
    for settings in (["answer_top=2"], ["ranking=product"], ["answer_top=1", "ranking=extreme"]):
        overruled = [word for setting in settings for word in ("--set", setting)]
        assert figures_of(clustered, data, tmp_path / "figures.json", *overruled)["P@1"] >= 0
    product, extreme = (
        json.loads(laconic("predict", clustered, "--json", "--set", f"ranking={ranking}", stdin="rose\n"))[
            "predictions"
        ]
        for ranking in ("product", "extreme")
    )
    assert max(one["score"] for one in product) < max(one["score"] for one in extreme)
    assert (clustered / "model.json").read_bytes() == before


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("answer_tops=3", "there is no setting 'answer_tops'; did you mean 'answer_top'"),
        ("answer_top=many", "answer_top must be int, but is 'many'"),
        ("answer_top", "a setting must look like key=value, but is 'answer_top'"),
        ("ranking=best", "ranking must be extreme or product, but is 'best'"),
        ("hidden=7", "hidden|size mismatch"),
        ("encoder=inception", "encoder"),
        ("heads=lightxml", "heads|tensors"),
        ("bias=true", "bias"),
    ],
)
def test_what_a_model_cannot_be_overruled_to_is_a_mistake(clustered, data, setting, message):
    for verb in (["evaluate", clustered, data], ["predict", clustered]):
        complained = laconic(*verb, "--set", setting, code=2)
        assert re.search(message, complained.replace("\n", " "))
        assert "Traceback" not in complained


@pytest.mark.parametrize("setting", ["clusters=1", "top=2", "epochs=9", "embedding=8", "seed=1"])
def test_what_a_model_has_learnt_is_not_overruled_in_silence(clustered, data, setting):
    assert setting.partition("=")[0] in laconic("evaluate", clustered, data, "--set", setting, code=2)


def test_words_can_be_shuffled_for_an_evaluation(clustered, model, data, tmp_path):
    for one in (clustered, model):  # neither reads their order
        plain, shuffled = (
            figures_of(one, data, tmp_path / "figures.json", *more) for more in ([], ["--shuffle-words", 3])
        )
        assert shuffled == pytest.approx(plain)


def test_a_negative_seed_of_words_is_a_mistake(clustered, data):
    laconic("evaluate", clustered, data, "--shuffle-words", "-1", code=2)


def test_a_sweep_shows_recall_and_precision_by_clusters_opened(clustered, data, tmp_path):
    shown = laconic("sweep", clustered, data, "--device", "cpu", "--json", tmp_path / "sweep.json")
    assert "shortlist recall" in shown
    assert "by clusters probed" in " ".join(shown.split())
    found = json.loads((tmp_path / "sweep.json").read_text())
    assert (found["model"], found["split"]) == (str(clustered), "test")
    assert [row["top"] for row in found["sweep"]] == [1, 2]
    assert found["sweep"][-1]["shortlist recall"] == 100
    figures = figures_of(clustered, data, tmp_path / "figures.json", "--set", "answer_top=2")
    assert found["sweep"][-1]["P@1"] == pytest.approx(figures["P@1"])


def test_a_sweep_opens_as_many_as_it_is_told(clustered, data, tmp_path):
    laconic("sweep", clustered, data, "--top", 2, "--top", 1, "--json", tmp_path / "sweep.json")
    assert [row["top"] for row in json.loads((tmp_path / "sweep.json").read_text())["sweep"]] == [2, 1]


def test_a_sweep_needs_a_dial_and_stays_on_it(clustered, reranked, model, data):
    assert "top must be 1 to the model's 2 clusters, but is 3" in laconic("sweep", clustered, data, "--top", 3, code=2)
    laconic("sweep", clustered, data, "--top", 0, code=2)
    assert "alpha must be 0 to 1, but is 0.5, 3" in laconic("sweep", reranked, data, "--at", 0.5, "--at", 3, code=2)
    complained = laconic("sweep", model, data, code=2)
    assert "this model has no setting to sweep" in complained
    assert "Traceback" not in complained


RERANK = [
    word for setting in ("epochs=3", "embedding=16", "learning_rate=0.05") for word in ("--set", f"reranker.{setting}")
]


@pytest.fixture(scope="module")
def reranked(data, tmp_path_factory):
    """The nearest, re-ranked."""
    folder = tmp_path_factory.mktemp("models") / "reranked"
    command = ["train", data, "--method", "nearest", "--rerank", "--out", folder, "--device", "cpu"]
    assert "nearest, re-ranked, 6 texts, 3 labels" in laconic(*command, *RERANK)
    return folder


def test_a_re_ranked_model_is_trained_and_told_of_as_any_other(reranked, model, data, tmp_path):
    config = json.loads((reranked / "model.json").read_text())["config"]["reranker"]
    assert (config["epochs"], config["alpha"], config["size"]) == (3, 0.6, 200)
    assert (reranked / "training.png").exists()
    assert "bag, of the best 200 labels" in laconic("inspect", reranked)
    assert "re-ranked (bag)" in (reranked / "README.md").read_text()
    assert "flower" in laconic("predict", reranked, "-k", 1, stdin="a rose\n")
    assert "difference" in laconic("compare", reranked, model, data)


def test_settings_of_a_re_ranker_ask_for_one(data, tmp_path):
    (tmp_path / "settings.toml").write_text("neighbours = 5\n[reranker]\nepochs = 1\nembedding = 16\n")
    for number, asking in enumerate((RERANK, ["--preset", tmp_path / "settings.toml"])):
        folder = tmp_path / str(number)
        command = ["train", data, "--method", "nearest", "--device", "cpu", "--no-pack", "--out", folder]
        assert "re-ranked" in laconic(*command, *asking)
        assert "reranker" in json.loads((folder / "model.json").read_text())["config"]


def test_a_sweep_of_a_combined_model_draws_the_frontier_of_its_tail_bias(data, tmp_path):
    described, pictures = tmp_path / "described", tmp_path / "pictures"
    shutil.copytree(data, described)
    texts = ({"id": label, "text": f"{label} everywhere"} for label in ("flower", "red", "water"))
    (described / "labels.jsonl").write_text("".join(json.dumps(one) + "\n" for one in texts))
    settings = ["--validation", 0.5, "--set", "trees=1", "--set", "fusion.trees=0", "--set", "fusion.siamese=8"]
    laconic("train", described, "--method", "trees", "--no-pack", "--device", "cpu", "--out", tmp_path / "m", *settings)
    shown = laconic("sweep", tmp_path / "m", described, "--at", 0, "--at", 0.5, "--plots", pictures)
    assert "by tail bias" in " ".join(shown.split())
    assert {path.name for path in pictures.iterdir()} == {"frontier-tail.png", "sweep-tail.png"}
    assert all(f"{pictures / name}" in shown for name in ("frontier-tail.png", "sweep-tail.png"))


@pytest.mark.slow
def test_the_dial_of_a_re_ranked_model_goes_from_what_it_re_ranks_to_the_re_ranker(reranked, model, data, tmp_path):
    plain, none, whole = (
        figures_of(one, data, tmp_path / "figures.json", *more)
        for one, more in ((model, []), (reranked, ["--set", "alpha=0"]), (reranked, ["--set", "alpha=1"]))
    )
    same_order = {"ECE@5": 0}  # scores are divided by the row's largest
    assert none | same_order == pytest.approx(plain | same_order)
    command = ["sweep", reranked, data, "--device", "cpu", "--json", tmp_path / "sweep.json"]
    shown = laconic(*command, "--plots", tmp_path / "pictures")
    assert "by the re-ranker's weight in a score" in " ".join(shown.split())
    assert [path.name for path in (tmp_path / "pictures").iterdir()] == ["sweep-alpha.png"]
    points = json.loads((tmp_path / "sweep.json").read_text())["sweep"]
    assert list(points[0]) == ["alpha", "P@1", "P@3", "P@5", "nDCG@5", "PSP@1", "PSP@3", "PSP@5", "tail R@10"]
    assert [point["alpha"] for point in points] == [tenths / 10 for tenths in range(11)]
    for point, figures in ((points[0], plain), (points[-1], whole)):
        assert {name: figures[name] for name in list(point)[1:]} == pytest.approx(dict(list(point.items())[1:]))
    laconic(*command, "--at", 0.25)
    assert [point["alpha"] for point in json.loads((tmp_path / "sweep.json").read_text())["sweep"]] == [0.25]


def test_what_a_re_ranker_has_learnt_is_not_overruled(reranked, data):
    complained = laconic("evaluate", reranked, data, "--set", "reranker.epochs=9", code=2).replace("\n", " ")
    assert "reranker.epochs cannot be changed without training" in complained
    assert "neighbours, power, reranker.alpha, reranker.size" in complained


def test_label_texts_are_learnt_from_where_they_are_asked_for(data, tmp_path):
    for number, asking in enumerate((["--label-texts"], ["--set", "extra_texts.share=0.5"])):
        command = ["train", data, "--method", "xml-cnn", "--device", "cpu", "--out", tmp_path / str(number), *asking]
        shown = laconic(*command, "--no-pack", "--set", "epochs=2", "--set", "embedding=16", "--set", "batch_size=2")
        assert "xml-cnn, label texts learnt, 6 texts, 3 labels" in shown
        config = json.loads((tmp_path / str(number) / "model.json").read_text())["config"]
        assert config["extra_texts"]["share"] == number / 2
    assert "flower" in laconic("predict", tmp_path / "0", "-k", 3, stdin="a rose\n")


@pytest.mark.slow
def test_members_are_re_ranked_one_by_one(data, tmp_path):
    command = ["train", data, "--encoder", "bag", "--ensemble", 2, "--rerank", "--no-pack", "--out", tmp_path / "m"]
    shown = laconic(*command, *SMALL[:-8], "--set", "epochs=2", "--set", "embedding=16", *RERANK)
    assert "inceptionxml, re-ranked (2 members)" in shown
    assert {path.name for path in (tmp_path / "m").glob("*.png")} == {"training0.png", "training1.png"}
    assert "alpha" in laconic("sweep", tmp_path / "m", data, "--at", 0, "--at", 1)


def test_inspect_tells_what_every_method_would_cost(data):
    costs = json.loads(laconic("inspect", data, "--json"))["costs"]
    assert list(costs) == ["inceptionxml", "inceptionxml+", "astec", "decaf"]
    shown = laconic("inspect", data)
    assert "inceptionxml+" in shown
    assert "laconic train would choose nearest texts, as 6 texts are too little to train on" in shown
    assert f"{sum(costs['inceptionxml+']['parameters'].values()):,}" in shown


def test_inspect_tells_what_a_budget_would_choose(model, tmp_path):
    texts = [f"word{number % 97} word{number % 89} word{number % 7}" for number in range(2_000)]
    lines = [json.dumps({"text": text, "labels": [f"l{len(text)}", text[-1]]}) for text in texts]
    (tmp_path / "many.jsonl").write_text("\n".join(lines))
    inspected = ["inspect", tmp_path / "many.jsonl", "--json", "--device", "cpu"]
    usual, short, long = (
        json.loads(laconic(*inspected, *more))["choice"] for more in ([], ["--budget", "1s"], ["--budget", "10m"])
    )
    assert usual["method"] == "astec"
    assert short["method"] != "astec"
    assert short["seconds"] < usual["seconds"] < long["seconds"]
    assert "--budget is for data" in laconic("inspect", model, "--budget", "5m", code=2)
    assert "a budget must be a time above 0" in laconic("inspect", tmp_path / "many.jsonl", "--budget", "soon", code=2)


def test_predict_reads_a_file_and_answers_every_line_in_order(model, tmp_path):
    (tmp_path / "texts").write_text("rose\n\nblue ocean\n")
    answers = [json.loads(line) for line in laconic("predict", model, tmp_path / "texts", "--json").splitlines()]
    assert [answer["text"] for answer in answers] == ["rose", "", "blue ocean"]


def test_predict_without_json_shows_names_and_scores(model):
    shown = laconic("predict", model, "-k", 1, stdin="rose\n")
    assert re.fullmatch(r"rose\n  \d\.\d{3}  flower\n", shown)


def test_predictions_score_the_same_as_the_model_that_made_them(data, model, tmp_path):
    texts = "".join(text + "\n" for text, _ in TEST)
    (tmp_path / "predictions.jsonl").write_text(laconic("predict", model, "-k", 3, "--json", stdin=texts))
    laconic("score", tmp_path / "predictions.jsonl", data, "--json", tmp_path / "scored.json")
    laconic("evaluate", model / "packed", data, "--json", tmp_path / "evaluated.json")
    scored, evaluated = (json.loads((tmp_path / f"{name}.json").read_text()) for name in ("scored", "evaluated"))
    assert scored["metrics"] == evaluated["metrics"]


def test_settings_reach_the_method(data, tmp_path):
    laconic(
        "train",
        data,
        "--method",
        "nearest",
        "--out",
        tmp_path / "m",
        "--no-pack",
        "--set",
        "neighbours=1",
        "--set",
        "text.stop_words=false",
    )
    config = json.loads((tmp_path / "m" / "model.json").read_text())["config"]
    assert (config["neighbours"], config["text"]["stop_words"]) == (1, False)


def test_inspect_prints_json_that_can_be_read(data):
    facts = json.loads(laconic("inspect", data, "--json"))
    assert facts["splits"]["train"]["texts"] == 6
    assert facts["labels"]["labels"] == 3


def test_inspect_draws_pictures(data, tmp_path):
    laconic("inspect", data, "--plots", tmp_path / "pictures")
    names = sorted(path.name for path in (tmp_path / "pictures").iterdir())
    assert names == ["label-frequencies.png", "sequence-lengths.png"]


def test_convert_then_inspect_finds_the_same(data, tmp_path):
    laconic("convert", data, tmp_path / "converted")
    one, other = (json.loads(laconic("inspect", folder, "--json")) for folder in (data, tmp_path / "converted"))
    del one["source"], other["source"], one["choice"], other["choice"]  # what training takes is measured each time
    assert one == other


def test_a_table_is_read_by_the_columns_that_are_named(tmp_path):
    (tmp_path / "shop.csv").write_text("product,kind\nred rose,flower/red\nblue sea,water\n")
    table = ["--table", "text=product", "--table", "labels=kind", "--table", "separator=/"]
    facts = json.loads(laconic("inspect", tmp_path / "shop.csv", "--json", *table))
    assert facts["labels"]["labels"] == 3


DEPARTMENTS = [
    ("red rose", "Home, Garden & Tools"),
    ("white rose", "Home, Garden & Tools"),
    ("blue sea", "Water; Salt"),
    ("blue ocean", "Water; Salt"),
    ("novel", "Books"),
    ("new novel", "Books"),
    ("short story", "Books"),
]


def shop(path, rows=DEPARTMENTS):
    path.write_text("sku,title,tags\n" + "".join(f'1,{text},"{labels}"\n' for text, labels in rows))
    return path


def test_inspect_shows_how_a_table_was_read(tmp_path):
    shown, told = shown_and_told("inspect", shop(tmp_path / "shop.csv"))
    for words in ("not used", "sku", "separator", "red rose", "Home, Garden & Tools", "most frequent", "longest"):
        assert words in shown
    assert "labels are separated by ';'" in told
    assert "',' is in 2 cells" in told
    facts = json.loads(laconic("inspect", tmp_path / "shop.csv", "--json"))
    used = {"text": "title", "labels": "tags"}
    columns = ["sku", "title", "tags"]
    found = {"columns": {"all": columns}, "used": {"all": used}, "separator": ";", "lists": 0, "fields": ""}
    assert facts["table"] == found
    assert facts["samples"][0] == {"text": "red rose", "labels": ["Home, Garden & Tools"]}
    assert len(facts["samples"]) == 5
    assert facts["labels"]["frequent"][0] == {"label": "Books", "texts": 3}
    assert facts["labels"]["longest"][0] == {"label": "Home, Garden & Tools", "texts": 2}
    assert facts["notes"]


@pytest.mark.parametrize(("options", "labels"), [(["--separator", "none"], 3), (["--separator", ","], 4), ([], 4)])
def test_the_separator_can_be_named_or_denied(options, labels, tmp_path):
    for asked in (options, ["--table", f"separator={options[1]}"] if options else []):
        facts = json.loads(laconic("inspect", shop(tmp_path / "shop.csv"), "--json", *asked))
        assert facts["labels"]["labels"] == labels


@pytest.mark.slow
def test_every_verb_that_reads_tables_takes_a_separator(tmp_path):
    table, folder = shop(tmp_path / "shop.csv"), tmp_path / "m"
    single = ["--separator", "none"]
    laconic("train", table, "--method", "nearest", "--out", folder, "--no-pack", *single)
    assert (folder / "labels.txt").read_text().splitlines() == ["Home, Garden & Tools", "Water; Salt", "Books"]
    laconic("convert", table, tmp_path / "converted", "--plain", *single)
    assert '"Water; Salt"' in (tmp_path / "converted" / "labels.jsonl").read_text()
    laconic("pack", folder, "--data", table, *single)
    (tmp_path / "new.jsonl").write_text('{"id": "Sea; Land", "text": "sea"}\n')
    more = shop(tmp_path / "more.csv", [("blue sea", "Sea; Land")])
    laconic("add-labels", folder, tmp_path / "new.jsonl", "--examples", more, "--out", tmp_path / "n", *single)
    laconic("update", folder, more, "--out", tmp_path / "u", *single)
    for verb in (["evaluate", folder], ["compare", folder, folder], ["bench", folder]):
        laconic(*verb, table, *single)
    (tmp_path / "answers.jsonl").write_text(laconic("predict", folder, table, "--json", "--column", "title"))
    laconic("score", tmp_path / "answers.jsonl", table, *single)


def test_data_for_a_model_is_cut_as_its_training_data_was(tmp_path):
    laconic("train", shop(tmp_path / "shop.csv"), "--method", "nearest", "--out", tmp_path / "m")
    test = shop(tmp_path / "test.csv", [("red rose", "Home, Garden & Tools")])
    assert "labels are separated by ','" in shown_and_told("inspect", test)[1]  # nothing is known there of the model
    for folder in (tmp_path / "m", tmp_path / "m" / "packed"):
        told = shown_and_told("evaluate", folder, test, "--json", tmp_path / "figures.json")[1]
        assert "labels are separated by ';'" in told
        assert json.loads((tmp_path / "figures.json").read_text())["metrics"]["P@1"] == 100


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["inspect", "nowhere"], "nowhere: there is no such file or folder"),
        (
            ["train", "debian-related", "--method", "magic", "--out", "m"],
            "there is no method 'magic'; known are: nearest",
        ),
        (
            ["train", "debian-related", "--method", "nearest", "--out", "m", "--set", "neighbors=3"],
            "there is no setting 'neighbors'; did you mean 'neighbours'?",
        ),
        (["predict", "nowhere"], "nowhere: there is no such model folder"),
        (["evaluate", "nowhere", "debian-related"], "nowhere: there is no such model folder"),
    ],
)
def test_a_users_mistake_is_one_message_without_a_traceback(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shown = laconic(*arguments, code=2)
    assert message in shown
    assert "Traceback" not in shown
    assert not list(tmp_path.iterdir())


def test_debug_shows_the_traceback():
    with (
        pytest.raises(DataError, match="nowhere"),
        mock.patch("sys.argv", ["laconic", "--debug", "inspect", "nowhere"]),
    ):
        main()


def test_an_unknown_verb_exits_with_2():
    laconic("frobnicate", code=2)


def test_a_model_travels_in_small_files_and_stays_in_them(data, tmp_path):
    small = ["--method", "inceptionxml+", "--encoder", "bag", "--shard-size", "1kB", "--half", *SMALL]
    laconic("train", data, "--no-pack", "--out", tmp_path / "m", *small)
    assert len(list((tmp_path / "m").glob("model-*-of-*.safetensors"))) > 1
    laconic("remove-labels", tmp_path / "m", "--label", "red", "--out", tmp_path / "fewer")
    assert len(list((tmp_path / "fewer").glob("model-*-of-*.safetensors"))) > 1
    answer = laconic("predict", tmp_path / "fewer", "--json", stdin="red sea")
    assert {prediction["label"] for prediction in json.loads(answer)["predictions"]} == {"flower", "water"}


@pytest.mark.parametrize(
    ("size", "message"), [("large", "a size must look like 16MB"), ("16", "write 16MB for 16 mil")]
)
def test_a_size_of_files_that_is_none_is_refused_before_training(data, tmp_path, size, message):
    complained = laconic("train", data, "--out", tmp_path / "m", "--shard-size", size, code=2)
    assert message in complained
    assert not (tmp_path / "m").exists()


@pytest.mark.slow
def test_an_interrupt_exits_with_130(model):
    running = process("predict", model, "-k", 1, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    time.sleep(2)  # by then it most likely waits for a text; any other moment must do as well
    running.send_signal(signal.SIGINT)
    running.communicate()
    assert running.returncode in (
        130,
        -signal.SIGINT,
    )  # the latter while Python still starts; a shell shows 130 for both


@pytest.mark.slow
def test_an_interrupted_training_says_how_to_go_on_and_does(data, tmp_path):
    command = ["train", data, "--encoder", "inception", "--out", tmp_path / "m", "--validation", "0", "--device", "cpu"]
    settings = ["--set", "epochs=2000", "--set", "embedding=16", "--set", "length=4"]
    running = process(*command, *settings, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    for line in running.stderr:
        if b"epoch 3/" in line:
            break
    running.send_signal(signal.SIGINT)
    _, complained = running.communicate()
    assert running.returncode == 130
    assert b"interrupted; run the same command again to resume" in complained
    assert (tmp_path / "m" / "run" / "train.safetensors").exists()
    assert "to start again" in laconic(*command, "--set", "epochs=5", code=2).replace("\n", " ")


def test_brackets_in_a_path_are_no_markup(data, tmp_path):
    folder = tmp_path / "a[bold]b[/c]"
    assert "a[bold]b[/c]" in laconic("train", data, "--method", "nearest", "--no-pack", "--out", folder)


@pytest.mark.slow
def test_a_mistake_in_a_process_of_its_own_exits_with_2():
    running = process("inspect", "nowhere", stderr=subprocess.PIPE)
    _, complained = running.communicate()
    assert running.returncode == 2
    assert b"error: nowhere: there is no such file or folder" in complained


@pytest.mark.slow
def test_a_reader_that_leaves_early_is_no_error(model):
    command = (
        f"yes rose | head -5000 | {sys.executable} -m laconic predict {model} --json | head -1; echo ${{PIPESTATUS[2]}}"
    )
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert "Traceback" not in done.stderr
    assert json.loads(done.stdout.splitlines()[0])["text"] == "rose"


def test_settings_of_a_method_that_was_not_chosen_are_refused(data, tmp_path):
    complained = laconic("train", data, "--out", tmp_path / "m", "--set", "epochs=5", code=2).replace("\n", " ")
    assert "there is no setting 'epochs'" in complained
    assert "nearest was chosen; name the method whose settings these are" in complained
    refused = laconic("train", data, "--out", tmp_path / "m", "--method", "nearest", "--budget", "5m", code=2)
    assert "leave one of them out" in refused.replace("\n", " ")
    refused = laconic("train", data, "--out", tmp_path / "m", "--preset", "laptop", "--budget", "5m", code=2)
    assert "--preset is of inceptionxml; leave one of them out" in refused.replace("\n", " ")


def test_a_method_is_chosen_and_said(data, tmp_path):
    shown = laconic("train", data, "--out", tmp_path / "m", "--budget", "5m", "--device", "cpu", "--no-pack")
    assert "m: nearest, 6 texts, 3 labels" in shown.replace("\n", " ")


def test_a_student_is_trained_by_the_command_line(data, tmp_path):
    laconic("train", data, "--out", tmp_path / "teacher", "--method", "nearest", "--no-pack")
    settings = ["--method", "inceptionxml+", "--encoder", "bag", "--no-pack", *SMALL]
    laconic("train", data, "--teacher", tmp_path / "teacher", "--out", tmp_path / "student", *settings)
    assert json.loads((tmp_path / "student" / "model.json").read_text())["teacher"] == "nearest"
