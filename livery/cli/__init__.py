"""The ``livery`` command. Each file here is a command or a group of them; the work is done in the packages.

Every command that measures ends with one line of JSON on standard output; progress and notices go to standard
error.
"""

from __future__ import annotations

import sys

import typer
from rich.console import Console

from livery import __version__
from livery.cli.augment import app as augment_app
from livery.cli.bench import app as bench_app
from livery.cli.data import app as data_app
from livery.cli.eval import app as eval_app
from livery.cli.harness import app as harness_app
from livery.cli.lab import app as lab_app
from livery.cli.live import live as live_command
from livery.cli.models import app as models_app
from livery.cli.replay import replay as replay_command
from livery.cli.tasks import app as tasks_app
from livery.cli.train import app as train_app
from livery.errors import LiveryError

app = typer.Typer(
    name="livery",
    help="Run a compact live-commerce agent under a harness that changes every day.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command("live")(live_command)
app.command("replay")(replay_command)
app.add_typer(harness_app, name="harness")
app.add_typer(augment_app, name="augment")
app.add_typer(data_app, name="data")
app.add_typer(train_app, name="train")
app.add_typer(lab_app, name="lab")
app.add_typer(models_app, name="models")
app.add_typer(tasks_app, name="tasks")
app.add_typer(eval_app, name="eval")
app.add_typer(bench_app, name="bench")


@app.command()
def version() -> None:
    """Print the version."""
    print(__version__)


def main() -> None:
    """Entry point: livery's own errors are told in a line or two, not as a traceback."""
    try:
        app()
    except LiveryError as error:
        Console(stderr=True).print(f"[bold red]error[/] {type(error).__name__}", highlight=False)
        Console(stderr=True, markup=False, highlight=False).print(str(error))
        sys.exit(1)
