"""What a draft head learns from: conversations as ids, with what the policy itself wrote.

Rows come from a folder of `livery data build`, best with the policy as its teacher, or from the trajectories of an
evaluation, whose turns hold the ids that were read and sampled. Where the tokenizer is the same nothing is encoded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from livery.errors import InputError
from livery.evaluation.results import TRAJECTORIES
from livery.policies.hf_loading import ChatTokenizer
from livery.room.trajectories import read_trajectories
from livery.training.conversations import TokenRow
from livery.training.rows import DataRow, read_rows_for
from livery.types import Trajectory


def draft_rows(
    data: Sequence[Path],
    runs: Sequence[Path],
    tokenizer: ChatTokenizer,
    *,
    max_tokens: int,
    say: Callable[[str], None],
) -> list[DataRow]:
    """
    Args:
        data: folders of `livery data build`.
        runs: folders of an evaluation, or files of trajectories.
        max_tokens: longer rows are left out.
        say: gets a line about what was left out or encoded anew.

    Raises:
        InputError: nothing there, ids of another tokenizer, or no row in which the policy wrote two tokens in a row.
    """
    rows: list[DataRow] = []
    for folder in data:
        rows += read_rows_for(folder, tokenizer, say)
    for run in runs:
        rows += _of_run(run, tokenizer, say)
    short = [row for row in rows if len(row.tokens.ids) <= max_tokens]
    if len(short) < len(rows):
        say(f"{len(rows) - len(short)} of {len(rows)} rows are longer than {max_tokens} tokens: left out")
    kept = [row for row in short if _teaches(row.tokens)]
    if not kept:
        raise InputError.at(
            ", ".join(map(str, (*data, *runs))) or "--data",
            f"{len(rows)} rows, none of at most {max_tokens} tokens in which the policy wrote two tokens in a row; "
            "expected a folder of `livery data build` or a run of `livery eval`",
            field="data",
            code="draft-rows",
        )
    return kept


def _teaches(row: TokenRow) -> bool:
    return any(one and two for one, two in zip(row.written, row.written[1:], strict=False))


def _of_run(run: Path, tokenizer: ChatTokenizer, say: Callable[[str], None]) -> list[DataRow]:
    path = run / TRAJECTORIES if run.is_dir() else run
    if not path.is_file():
        raise InputError.at(path, "no such file; expected the trajectories of a run", code="draft-run")
    rows: list[DataRow] = []
    without = agree = differ = 0
    for trajectory in read_trajectories(path):
        if any(turn.policy.tokens is None for turn in trajectory.turns):
            without += 1
            continue
        for turn in trajectory.turns:
            if (tokens := turn.policy.tokens) and (said := turn.policy.text.strip()):
                same = said in _text(tokenizer, tokens.output_ids)
                agree, differ = agree + same, differ + (not same)
        rows += [
            DataRow(
                id=f"{trajectory.id}/{i}",
                group=trajectory.harness_release,
                tokens=tokens,
                messages=(),
                fields={"run": run.name},
            )
            for i, tokens in enumerate(token_rows(trajectory))
        ]
    if differ > agree:
        raise InputError.at(
            path,
            f"in {differ} of {agree + differ} turns the ids do not spell the reply that was given; expected the run of "
            "a policy with the model's own tokenizer",
            field="tokens",
            code="draft-tokenizer",
        )
    if without:
        say(f"{run.name}: {without} trajectories without ids (a server's, or the oracle's): left out")
    return rows


def _text(tokenizer: ChatTokenizer, ids: Sequence[int]) -> str:
    size = len(tokenizer.tokenizer)
    return tokenizer.decode(ids) if all(i < size for i in ids) else ""


def token_rows(trajectory: Trajectory) -> list[TokenRow]:
    """A trajectory's ids with what the policy wrote: one row, or several where a turn's prompt does not begin with what
    the policy had read and written before."""
    ids: list[int] = []
    written: list[bool] = []
    rows: list[TokenRow] = []
    for turn in trajectory.turns:
        tokens = turn.policy.tokens
        if tokens is None:
            continue
        if ids and list(tokens.prompt_ids[: len(ids)]) != ids:
            rows.append(TokenRow(ids=tuple(ids), written=tuple(written)))
            ids, written = [], []
        read = tokens.prompt_ids[len(ids) :]
        ids += [*read, *tokens.output_ids]
        written += [False] * len(read) + [True] * len(tokens.output_ids)
    return [*rows, TokenRow(ids=tuple(ids), written=tuple(written))] if ids else rows


def commonest(rows: Iterable[TokenRow], size: int, always: Iterable[int]) -> tuple[int, ...]:
    """The ids that policies wrote most often, ``always`` among them.

    Args:
        size: how many at most; 0: none, which stands for all.
    """
    if not size:
        return ()
    counted = Counter(i for row in rows for i, w in zip(row.ids, row.written, strict=True) if w)
    first = dict.fromkeys(always)
    return tuple(sorted([*first, *(i for i, _ in counted.most_common() if i not in first)][:size]))
