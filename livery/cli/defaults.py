"""What commands use when nothing is said: the samples of a checkout, found from where the command is run."""

from __future__ import annotations

from pathlib import Path

from livery.errors import InputError

HARNESS = Path("harnesses/streamer-en")
STORE = Path("stores/demo-en")
CHATS = Path("chats")


def need_samples(harness: Path, store: Path) -> None:
    """Says where samples are looked for, if they were asked for by saying nothing.

    Raises:
        InputError: one is a default and is not here.
    """
    for path, default, option in ((harness, HARNESS, "--harness"), (store, STORE, "--store")):
        if path == default and not path.exists():
            raise InputError.at(path, f"no samples here; run from livery's own folder, or give {option}")


def sample_chat(language: str) -> Path:
    """The sample chat of a language.

    Raises:
        InputError: not run from a checkout.
    """
    path = CHATS / f"demo-{'zh' if language.startswith('zh') else 'en'}.jsonl"
    if not path.is_file():
        raise InputError.at(path, "no sample chat here; run from livery's own folder, or give --chat FILE or none")
    return path
