"""What commands use when nothing is said: the samples of a checkout, found from where the command is run."""

from __future__ import annotations

from pathlib import Path

from livery.errors import InputError

HARNESS = Path("harnesses/streamer-en")
STORE = Path("stores/demo-en")
CHATS = Path("chats")


def sample_chat(language: str) -> Path:
    """The sample chat of a language.

    Raises:
        InputError: not run from a checkout.
    """
    path = CHATS / f"demo-{'zh' if language.startswith('zh') else 'en'}.jsonl"
    if not path.is_file():
        raise InputError.at(
            path, "no sample chat here; run from livery's own folder, or give --chat FILE or none"
        )
    return path
