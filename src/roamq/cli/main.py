"""`roamq`: the group of commands.

Commands are found by name and imported when called, so that `roamq --help` answers at once: `COMMANDS` is all
it reads. A command lives in `roamq/cli/<name>.py` as the click command called `command`; a name without
such a file is not listed.
"""

import importlib
import importlib.util
import traceback
from collections.abc import Sequence
from typing import Any

import click

from roamq import __version__
from roamq.cli.suggest import did_you_mean
from roamq.core.errors import ConfigError, RoamqError

COMMANDS = {
    "demo": "The tour: moving clients, records through Spark, the report.",
    "up": "A broker network on this machine; prints its endpoints.",
    "serve": "One broker of a network, for a real deployment.",
    "drain": "Move clients and sessions away from a running broker.",
    "keys": "A certificate authority and a certificate for each broker of a network.",
    "password": "The hash of a password, for a network's configuration.",
    "bench": "Live brokers under load: throughput beside other brokers, clients that roam.",
    "console": "The live web console of a running network.",
    "simulate": "Simulate a broker network with moving clients, on Spark.",
    "reproduce": "Rerun the papers' experiments and print the scorecard.",
    "report": "An HTML report with figures and the numbers behind them.",
    "pipeline": "Traces and records into bronze, silver and gold tables.",
    "study": "Traces in, a ranking of the schemes out.",
    "plan": "The models: brokers, throughput, response times, buffers.",
}


class UserError(click.ClickException):
    """The operator can mend it: one line, exit code 2."""

    exit_code = 2

    def show(self, file: Any = None) -> None:
        click.echo(f"roamq: {self.format_message()}", err=True)


class UnexpectedError(click.ClickException):
    """Nobody expected it: a short line, exit code 1; `--debug` shows where."""

    exit_code = 1

    def show(self, file: Any = None) -> None:
        click.echo(f"roamq: {self.format_message()}", err=True)


class LazyGroup(click.Group):
    """Imports a command when it is called, and turns our errors into one line and an exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for name in COMMANDS if _module_of(name) is not None]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        module = _module_of(cmd_name)
        if module is None:
            return None
        command = importlib.import_module(module).command
        assert isinstance(command, click.Command), f"{module}.command is not a click command"
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and _module_of(args[0]) is None:
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

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except ConfigError as error:
            _show_traceback(ctx)
            raise UserError(str(error)) from error
        except RoamqError as error:
            _show_traceback(ctx)
            raise UnexpectedError(str(error)) from error
        except Exception as error:
            _show_traceback(ctx)
            hint = "" if ctx.params.get("debug") else " (`roamq --debug ...` shows where)"
            told = (str(error).strip() or "no message").splitlines()[0]
            raise UnexpectedError(f"unexpected {type(error).__name__}: {told}{hint}") from error


def _module_of(name: str) -> str | None:
    if name not in COMMANDS:
        return None
    module = f"roamq.cli.{name}"
    return module if importlib.util.find_spec(module) else None


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
      roamq demo                                       two minutes, ends with a report
      roamq simulate testbed --scheme standard --seeds 5
      roamq reproduce --quick
    """


def main(args: Sequence[str] | None = None) -> None:
    cli.main(args=list(args) if args is not None else None, prog_name="roamq")


if __name__ == "__main__":
    main()
