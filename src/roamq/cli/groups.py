"""Commands with subcommands."""

import inspect
import re

import click

END_OF_SENTENCE = re.compile(r"(?<!\bEq)\.\s")


class SentenceGroup(click.Group):
    """Lists subcommands with their whole first sentence: click would cut it off at the end of the line."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl([(name, first_sentence(one.help or "")) for name, one in found if one])


def first_sentence(text: str) -> str:
    paragraph = " ".join(inspect.cleandoc(text).partition("\n\n")[0].split())
    return END_OF_SENTENCE.split(paragraph)[0].removesuffix(".") + "."
