"""The commands around training, as a person runs them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("trl", reason="needs the training extra: trl is not installed")

from training_rows import small_data, small_model
from typer.testing import CliRunner

from livery.cli import app
from livery.errors import InputError

ROOT = Path(__file__).parents[2]
pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),  # of the training libraries among themselves
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    home = tmp_path_factory.mktemp("cli")
    return small_data(home / "data"), small_model(home / "model")


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def test_training_ends_with_a_line_of_json_and_a_model(given, tmp_path):
    data, model = given
    done = run(
        "train", "sft", "--data", data, "--model", model, "--out", tmp_path, "--steps", 2, "--lora-rank", 2, "--cpu"
    )
    assert done.exception is None
    result = json.loads(done.stdout.splitlines()[-1])
    assert (result["steps"], result["rows"], result["packing"]["kind"]) == (2, 12, "tree")
    assert (tmp_path / "model" / "adapter_model.safetensors").is_file()


def test_the_oracle_teaches_and_a_second_start_has_nothing_left_to_do(given, tmp_path):
    build = ("data", "build", ROOT / "harnesses" / "streamer-en", "--tasks", 10, "--model", given[1], "--out", tmp_path)
    first = run(*build)
    assert first.exception is None
    counts = json.loads(first.stdout.splitlines()[-1])
    assert counts["conversations"] == 10
    assert counts["rows"] + sum(counts["dropped"].values()) >= 10
    assert counts["rows"] >= 8
    assert counts["harnesses"] == 2
    again = json.loads(run(*build).stdout.splitlines()[-1])
    assert {**again, "seconds": 0} == {**counts, "resumed": 10, "seconds": 0}
    assert json.loads(run("data", "check", tmp_path, "--model", given[1]).stdout.splitlines()[-1])["differences"] == 0
    with pytest.raises(InputError, match="expected of"):
        raise run(*build, "--dimension", "colour").exception
    with pytest.raises(InputError, match=r"expected oracle, or oracle\?manner=plain"):
        raise run(*build[:-1], tmp_path / "loud", "--teacher", "oracle?manner=loud").exception
    plain = run(*build[:-1], tmp_path / "plain", "--teacher", "oracle?manner=plain", "--first-turns", 1)
    assert json.loads(plain.stdout.splitlines()[-1])["written"] < counts["written"]


def test_checking_renders_every_row_twice(given):
    data, model = given
    done = run("data", "check", data, "--model", model)
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "rows": 12, "differences": 0, "tokenizer": json.loads((data / "card.json").read_text())["tokenizer"]["digest"],
        "as_built": True,
    }  # fmt: skip


def test_rows_that_do_not_fit_their_messages_are_found(given, tmp_path):
    from training_rows import small_rows

    from livery.training.conversations import TokenRow
    from livery.training.rows import CARD, ROWS, DataRow, write_rows

    rows = small_rows()
    spoilt = rows[3].tokens
    ids = (*spoilt.ids[:-2], 99, spoilt.ids[-1])
    rows[3] = DataRow(
        id=rows[3].id, group=rows[3].group, tokens=TokenRow(ids=ids, written=spoilt.written), messages=rows[3].messages,
        fields={},
    )  # fmt: skip
    write_rows(tmp_path / ROWS, rows)
    (tmp_path / CARD).write_text((given[0] / "card.json").read_text())
    done = run("data", "check", tmp_path, "--model", given[1])
    assert isinstance(done.exception, InputError)
    assert "1 rows hold other ids" in str(done.exception)
    assert "0/3" in str(done.exception)


def test_a_row_is_shown_with_what_the_policy_wrote(given):
    done = run("data", "show", given[0], 1, "--model", given[1])
    assert "No 1.<|im_end|>" in done.stdout
    assert isinstance(run("data", "show", given[0], 99, "--model", given[1]).exception, InputError)


def test_the_command_starts_without_the_training_libraries():
    code = (
        "import sys, livery.cli\n"
        "heavy = {'torch', 'transformers', 'datasets', 'pyarrow', 'trl', 'matplotlib', 'livery.training'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, cwd=ROOT)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("name", ["ddp", "fsdp", "deepspeed-zero2", "deepspeed-zero3"])
def test_accelerate_reads_the_configurations_for_several_devices(name):
    from accelerate.commands.config.config_args import load_config_from_file

    config = load_config_from_file(str(ROOT / "configs" / f"{name}.yaml"))
    wanted = {"ddp": "MULTI_GPU", "fsdp": "FSDP"}.get(name, "DEEPSPEED")
    assert config.distributed_type == wanted
    assert config.deepspeed_config.get("zero_stage", 0) == {"deepspeed-zero2": 2, "deepspeed-zero3": 3}.get(name, 0)
