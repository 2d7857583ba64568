"""Small rows and runs that the training tests share. Not a test module; needs torch."""

import json
from pathlib import Path

from policies_tiny_model import byte_tokenizer, chat_tokenizer, tiny_llama

from livery.policies.policy import PromptMessage
from livery.training.conversations import token_row
from livery.training.rows import CARD, ROWS, DataRow, write_rows
from livery.types import ToolCall


def conversation(harness, question, reply):
    call = ToolCall(id="call_0", name="price", arguments={"link": question})
    return (
        PromptMessage(role="system", content=f"Host {harness}. Be short."),
        PromptMessage(role="user", content=question),
        PromptMessage(role="assistant", content="", calls=(call,)),
        PromptMessage(role="tool", content="$9", call_id="call_0", name="price"),
        PromptMessage(role="assistant", content=reply),
    )


def small_rows(harnesses=3, tasks=4):
    encoder = chat_tokenizer()
    rows = []
    for h in range(harnesses):
        for t in range(tasks):
            messages = conversation(f"h{h}", f"{t}?", f"No {t}.")
            tokens = token_row(messages, encoder, name=f"{h}/{t}")
            rows.append(
                DataRow(id=f"{h}/{t}", group=f"h{h}", tokens=tokens, messages=messages, fields={"task": str(t)})
            )
    return rows


def small_data(folder: Path, **shape):
    """A folder as the data builder leaves it."""
    folder.mkdir(parents=True, exist_ok=True)
    write_rows(folder / ROWS, small_rows(**shape))
    card = {"split": "train", "seeds": {"tasks": 3}, "tokenizer": {"digest": chat_tokenizer().digest}}
    (folder / CARD).write_text(json.dumps(card))
    return folder


def small_model(folder: Path):
    tiny_llama().save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)
    return folder
