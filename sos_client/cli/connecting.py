"""The options that every verb has, and what they make: an open client, run to the end of the verb."""

from __future__ import annotations

import contextlib
import functools
import secrets
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from sos_client.attempts import Deadlines
from sos_client.clear_text import check_token_stays
from sos_client.client import SosClient, open_client
from sos_client.command.connecting import (
    INSECURE_OPTION,
    TLS_CA_OPTION,
    TLS_CERT_OPTION,
    TLS_KEY_OPTION,
    TLS_OPTION,
    TOKEN_FILE_OPTION,
    Verb,
    decorated,
)
from sos_client.command.parameters import Seconds
from sos_client.command.profiles import (
    PROFILE_OPTION,
    WAY_IN_OPTIONS,
    Profile,
    WayIn,
    chosen_profile,
    way_in_of_options,
)
from sos_client.command.running import run_async
from sos_client.link import Link, open_link
from sos_client.net.dialing import tcp_dial
from sos_client.wire import messages as m
from sos_client.wire.limits import IDENTITY_BYTES, PROTOCOL_VERSION
from sos_client.wire.names import check_name

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

DEFAULT_SERVER = "127.0.0.1:7400"

T = TypeVar("T")


_OPTIONS = (
    click.option(
        "--server",
        metavar="HOST:PORT",
        envvar="SOS_SERVER",
        help=f"Where it is [SOS_SERVER] (default: the profile's first server, else {DEFAULT_SERVER}).",
    ),
    PROFILE_OPTION,
    click.option("--token", metavar="HEX", help="Better given as SOS_TOKEN: others see arguments."),
    TOKEN_FILE_OPTION,
    TLS_OPTION,
    TLS_CA_OPTION,
    TLS_CERT_OPTION,
    TLS_KEY_OPTION,
    INSECURE_OPTION,
    click.option(
        "--timeout",
        type=Seconds(min=0),
        help="Seconds to wait for an answer (default 30), and to keep trying after a loss (default 60).",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Connecting:
    """What the command line says about the server. `open` makes a client of it."""

    server: str = DEFAULT_SERVER
    way_in: WayIn = WayIn()  # noqa: RUF009 (frozen)
    timeout: float | None = None

    def run(self, verb: Callable[[SosClient], Awaitable[T]]) -> T:
        """Connect, do this, and disconnect."""

        async def main() -> T:
            shown, deadlines = self.way_in.credentials(), self._deadlines()
            async with open_client(
                self.server, token=shown.token, tls=shown.tls, insecure=shown.insecure, deadlines=deadlines
            ) as client:
                return await verb(client)

        return run_async(main)

    @contextlib.asynccontextmanager
    async def open_links(self, count: int) -> AsyncIterator[list[Link]]:
        """This many bare connections, each as if from a client of its own."""
        shown, seconds = self.way_in.credentials(), self._deadlines().connect_seconds
        check_token_stays([self.server], token=shown.token, encrypted=shown.insecure or shown.tls is not None)
        dial = tcp_dial(shown.tls)
        async with contextlib.AsyncExitStack() as stack:
            links = []
            for _ in range(count):
                instance = secrets.token_bytes(IDENTITY_BYTES)
                hello = m.Hello(version=PROTOCOL_VERSION, token=shown.token, client="sos bench", instance=instance)
                links.append(await open_link(dial, self.server, hello, seconds=seconds))
                stack.push_async_callback(links[-1].aclose)
            yield links

    def _deadlines(self) -> Deadlines:
        """Who is willing to wait long, waits so long for a lost server to be back; for each answer as everybody."""
        usual = Deadlines().within(self.timeout)
        return usual if self.timeout is None else replace(usual, retry_seconds=self.timeout)


def connecting_options(function: Verb) -> Verb:
    """Give a verb the options above. It gets them as one argument, `connecting`."""

    @functools.wraps(function)
    def with_options(**arguments: Any) -> Any:
        profile = chosen_profile(arguments.pop("profile"))
        way_in = way_in_of_options(arguments, profile.to_servers, named=profile.named)
        for name in ("token", *WAY_IN_OPTIONS):
            arguments.pop(name)
        server, timeout = _server(arguments.pop("server"), profile), arguments.pop("timeout")
        return function(connecting=Connecting(server=server, way_in=way_in, timeout=timeout), **arguments)

    return decorated(with_options, _OPTIONS)


def _server(given: str | None, profile: Profile) -> str:
    from_line = click.get_current_context().get_parameter_source("server") is ParameterSource.COMMANDLINE
    of_profile = profile.servers[0] if profile.servers else None
    first, second = (of_profile, given) if profile.named and not from_line else (given, of_profile)
    return first or second or DEFAULT_SERVER


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """NAMESPACE or NAMESPACE/OBJECT as given on the command line."""

    namespace: str
    object: str | None

    def __str__(self) -> str:
        return self.namespace if self.object is None else f"{self.namespace}/{self.object}"


def place_argument(metavar: str, *, required: bool = True) -> Callable[[Verb], Verb]:
    """The argument `place` in one of the forms NAMESPACE, NAMESPACE/OBJECT and NAMESPACE[/OBJECT]."""

    def parse(ctx: click.Context, param: click.Parameter, value: str | None) -> Place | None:
        if value is None:
            return None
        namespace, slash, name = value.partition("/")
        if bool(slash) != ("/" in metavar) and "[" not in metavar:
            raise click.BadParameter(f"{value!r} is not of the form {metavar}", ctx, param)
        check_name(namespace)
        return Place(namespace=namespace, object=check_name(name) if slash else None)

    return click.argument("place", metavar=metavar, callback=parse, required=required)
