"""`roamq password`: a hash for the configuration."""

import click


@click.command()
@click.password_option(
    "--password",
    prompt="Password",
    envvar="ROAMQ_PASSWORD",
    help="The password; without it, the command asks.",
)
def command(password: str) -> None:
    """Print the hash of a password, for `access.users` of a network's configuration.

    \b
    Example:
      roamq password
      [access.users]
      ann = "scrypt$..."
    """
    from roamq.net.clients.passwords import hash_password

    click.echo(hash_password(password.encode()))
