"""`roamq`: the group of commands.

A command is imported when it is called, so that `roamq --help` answers at once: the help reads `COMMANDS` alone. A
command lives in `roamq/cli/<name>.py` as the click command called `command`.
"""

import errno
import importlib
import os
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from roamq import __version__
from roamq.cli.output import is_text
from roamq.cli.suggest import did_you_mean
from roamq.core.errors import ConfigError, RoamqError

COMMANDS = {
    "demo": "A two-minute tour: moving clients, records through Spark, a report.",
    "init": "Write a network with keys, users and TLS that starts as it is.",
    "up": "Start a broker network on this machine and print its endpoints.",
    "serve": "Run one broker of a network, for a real deployment.",
    "status": "Show the brokers of a network: state, clients, links, handoffs.",
    "clients": "List who is connected, and where.",
    "sessions": "List sessions: whose, where, how many messages wait.",
    "where": "Show where a client is, and what waits for it.",
    "trace": "Follow a message, a client or a topic through the records.",
    "kick": "End the connection of a client; its session stays.",
    "reload": "Let brokers read users, access rules, schemes, links and positions again.",
    "drain": "Move clients and sessions away from a running broker.",
    "join": "Let a new broker enter a running network.",
    "leave": "Let a broker hand everything over, leave the network and end.",
    "forget": "Declare a broker dead that will never return.",
    "upgrade-check": "Say whether this release reads what a broker has stored.",
    "keys": "Create a certificate authority, and a certificate for each broker.",
    "password": "Hash a password for a network's configuration.",
    "bench": "Measure live brokers: throughput, and clients that roam.",
    "simulate": "Simulate a broker network with moving clients, on Spark.",
    "reproduce": "Rerun the papers' experiments and print the scorecard.",
    "report": "Write an HTML report with figures and the numbers behind them.",
    "pipeline": "Turn traces and records into bronze, silver and gold tables.",
    "study": "Rank the mobility schemes for the clients in your traces.",
    "plan": "Ask the models: brokers, throughput, response times, buffers.",
}


OF_SPARK = {"pyspark", "pandas", "py4j", "grpc", "grpc_status", "google", "deltalake"}
"""Packages that the extra `spark` installs."""

KEPT = {
    "simulate": "finished runs are kept in the folder of the results: the same command goes on from there",
    "demo": "finished runs are kept in the folder of the results: the same command goes on from there",
    "study": "tables and finished runs are kept: the same command goes on from there",
    "reproduce": "finished runs are kept: the same command goes on from there",
    "pipeline": "tables that were finished are kept: the same command goes on from there",
    "drain": "the broker goes on draining: ask again with the same command",
    "leave": "the broker goes on leaving: ask again with the same command",
}
"""Command -> what it leaves behind when Ctrl-C ends it."""


NO_ROOM = (errno.ENOSPC, errno.EDQUOT)

TYPED = "roamq.typed"
"""The key under which the context of a command keeps the words of the command line."""


class UserError(click.ClickException):
    """An error that the operator can mend: one line, exit code 2."""

    exit_code = 2

    def show(self, file: Any = None) -> None:
        click.echo(f"roamq: {self.format_message()}", err=True)


class UnexpectedError(click.ClickException):
    """An unexpected error: a short line, exit code 1; `--debug` shows where it happened."""

    exit_code = 1

    def show(self, file: Any = None) -> None:
        click.echo(f"roamq: {self.format_message()}", err=True)


class InterruptedByUser(click.ClickException):
    """Ctrl-C ended a command: the exit code that shells expect, and what was kept."""

    exit_code = 130

    def show(self, file: Any = None) -> None:
        click.echo(f"\nroamq: {self.format_message()}", err=True)


class LazyGroup(click.Group):
    """Imports a command when it is called, and turns our errors into one line and an exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = importlib.import_module(f"roamq.cli.{cmd_name.replace('-', '_')}").command
        assert isinstance(command, click.Command), f"roamq.cli.{cmd_name}.command is not a click command"
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            known = self.list_commands(ctx)
            raise UserError(
                f"no command {args[0]!r}{did_you_mean(args[0], known)} (`roamq --help` lists them)"
            )
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = [(name, COMMANDS[name]) for name in self.list_commands(ctx)]
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[TYPED] = list(args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except KeyboardInterrupt as error:
            kept = _kept(ctx.invoked_subcommand or "", ctx.meta[TYPED])
            raise InterruptedByUser(f"interrupted; {kept}" if kept else "interrupted") from error
        except ConfigError as error:
            _show_traceback(ctx)
            raise UserError(str(error)) from error
        except RoamqError as error:
            _show_traceback(ctx)
            raise UnexpectedError(str(error)) from error
        except Exception as error:
            _show_traceback(ctx)
            if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] in OF_SPARK:
                raise UserError(
                    f"this needs Spark: pip install 'roamq[spark]' ({error.name} is missing)"
                ) from error
            if isinstance(error, OSError) and _is_typed(error.filename, ctx.meta[TYPED]):
                raise UserError(f"{error.filename}: {error.strerror}") from error
            strange = [word for word in ctx.meta[TYPED] if not is_text(word)]
            if isinstance(error, UnicodeEncodeError) and strange:
                raise UserError(f"{strange[0]!r}: has bytes that are not UTF-8; write it as text") from error
            if isinstance(error, OSError) and error.errno in NO_ROOM:
                raise UserError(_no_room(error)) from error
            hint = "" if ctx.params.get("debug") else " (`roamq --debug ...` shows where)"
            told = (str(error).strip() or "no message").splitlines()[0]
            raise UnexpectedError(f"unexpected {type(error).__name__}: {told}{hint}") from error


def _kept(command: str, typed: Sequence[str]) -> str | None:
    """Says what Ctrl-C leaves behind; None for a replay of one run, and for a subcommand that makes no tables."""
    if command == "simulate" and any(word.partition("=")[0] == "--seed" for word in typed):
        return None
    if command == "pipeline" and not {"run", "retry", "remove"} & set(typed):
        return None
    return KEPT.get(command)


def _is_typed(path: object, typed: Sequence[str]) -> bool:
    """Whether the operator has typed this path, one of its parents, or a path below it."""
    if not isinstance(path, str):
        return False
    wrong = Path(path).absolute()
    words = (word.partition("=")[2] if word.startswith("--") else word for word in typed)
    given = [Path(word).absolute() for word in words if word]
    return any(wrong.is_relative_to(one) or one.is_relative_to(wrong) for one in given)


def _no_room(error: OSError) -> str:
    """Explains a full disk in our words: some libraries' messages leave the file out, or say much else."""
    where = f"{error.filename}: " if error.filename else "what was to be written does not fit: "
    return f"{where}{os.strerror(error.errno or 0)}; make room, or name another place"


def _show_traceback(ctx: click.Context) -> None:
    if ctx.params.get("debug"):
        click.echo(traceback.format_exc(), err=True)


@click.group(
    cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.option("--debug", is_flag=True, envvar="ROAMQ_DEBUG", help="Show the traceback of an error.")
@click.version_option(__version__, prog_name="roamq")
def cli(debug: bool) -> None:
    """Publish/subscribe for clients that move.

    \b
    Start here:
      roamq up --console                               three brokers here, and a page that shows them
      roamq init net                                   a network with keys, users and TLS
      roamq simulate testbed --seed 1                  the same brokers, in virtual time
      roamq demo                                       two minutes on Spark, ends with a report
    """


def main(args: Sequence[str] | None = None) -> None:
    cli.main(args=list(args) if args is not None else None, prog_name="roamq")


if __name__ == "__main__":
    main()
