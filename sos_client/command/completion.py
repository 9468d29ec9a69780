"""The verb `completion` of every command: what a shell needs to complete its command lines."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

_WHERE = {"bash": "~/.bashrc", "zsh": "~/.zshrc", "fish": "~/.config/fish/config.fish"}


def completion_verb(command: click.Group, program: str) -> click.Command:
    """`PROGRAM completion bash|zsh|fish`."""
    help_text = f"""Print a script that completes verbs and options of {program}.

    \b
    {program} completion bash >> ~/.bashrc
    {program} completion zsh  >> ~/.zshrc
    {program} completion fish >> ~/.config/fish/config.fish
    """

    @click.command("completion", help=help_text)
    @click.argument("shell", type=click.Choice(list(_WHERE)))
    def completion(*, shell: str) -> None:
        kind = get_completion_class(shell)
        assert kind is not None
        variable = f"_{program.replace('-', '_').upper()}_COMPLETE"
        # Not `source()`: it looks which bash there is here, and the script is for where it is read.
        script = kind(command, {}, program, variable)
        click.echo(script.source_template % script.source_vars())

    return completion
