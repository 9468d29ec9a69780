"""The options that every verb has, and what they make: an open client, run to the end of the verb."""

from __future__ import annotations

import contextlib
import functools
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from sos_client.attempts import Deadlines
from sos_client.clear_text import check_token_stays
from sos_client.client import SosClient, open_client
from sos_client.command.connecting import (
    INSECURE_OPTION,
    TLS_CA_OPTION,
    TLS_OPTION,
    TOKEN_FILE_OPTION,
    Verb,
    decorated,
)
from sos_client.command.parameters import FILE, Seconds
from sos_client.command.running import run_async
from sos_client.credentials import tls_context, token_of
from sos_client.link import Link, open_link
from sos_client.net.dialing import tcp_dial
from sos_client.wire import messages as m
from sos_client.wire.limits import IDENTITY_BYTES, PROTOCOL_VERSION
from sos_client.wire.names import check_name

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

DEFAULT_SERVER = "127.0.0.1:7400"

T = TypeVar("T")


_OPTIONS = (
    click.option("--server", metavar="HOST:PORT", envvar="SOS_SERVER", help=f"Where it is (default {DEFAULT_SERVER})."),
    click.option("--token", metavar="HEX", help="Better given as SOS_TOKEN: others see arguments."),
    TOKEN_FILE_OPTION,
    TLS_OPTION,
    TLS_CA_OPTION,
    click.option("--tls-cert", type=FILE, envvar="SOS_TLS_CERT", help="Certificate of this client (PEM)."),
    click.option("--tls-key", type=FILE, envvar="SOS_TLS_KEY", help="Its key (PEM)."),
    INSECURE_OPTION,
    click.option("--timeout", type=Seconds(min=0), help="Seconds to keep trying after a loss (default 60)."),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Connecting:
    """What the command line says about the server. `open` makes a client of it."""

    server: str | None = None
    token: str | None = None
    token_file: Path | None = None
    tls: bool = False
    tls_ca: Path | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    insecure: bool = False
    timeout: float | None = None

    def run(self, verb: Callable[[SosClient], Awaitable[T]]) -> T:
        """Connect, do this, and disconnect."""

        async def main() -> T:
            token, context, deadlines = self._token(), self._context(), self._deadlines()
            async with open_client(
                self._address, token=token, tls=context, insecure=self.insecure, deadlines=deadlines
            ) as client:
                return await verb(client)

        return run_async(main)

    @contextlib.asynccontextmanager
    async def open_links(self, count: int) -> AsyncIterator[list[Link]]:
        """So many bare connections, each as if from a client of its own."""
        context, token, seconds = self._context(), self._token(), self._deadlines().connect_seconds
        check_token_stays([self._address], token=token, encrypted=self.insecure or context is not None)
        dial = tcp_dial(context)
        async with contextlib.AsyncExitStack() as stack:
            links = []
            for _ in range(count):
                instance = secrets.token_bytes(IDENTITY_BYTES)
                hello = m.Hello(version=PROTOCOL_VERSION, token=token, client="sos bench", instance=instance)
                links.append(await open_link(dial, self._address, hello, seconds=seconds))
                stack.push_async_callback(links[-1].aclose)
            yield links

    @property
    def _address(self) -> str:
        return self.server or DEFAULT_SERVER

    def _deadlines(self) -> Deadlines:
        return Deadlines() if self.timeout is None else Deadlines(retry_seconds=self.timeout)

    def _token(self) -> bytes | None:
        return token_of(self.token_file, self.token)

    def _context(self) -> ssl.SSLContext | None:
        return tls_context(self.tls_ca, wanted=self.tls, certificate=self.tls_cert, key=self.tls_key)


def connecting_options(function: Verb) -> Verb:
    """Give a verb the options above. It gets them as one argument, `connecting`."""

    @functools.wraps(function)
    def with_options(**arguments: Any) -> Any:
        names = Connecting.__dataclass_fields__
        connecting = Connecting(**{name: arguments.pop(name) for name in names})
        return function(connecting=connecting, **arguments)

    return decorated(with_options, _OPTIONS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """NAMESPACE or NAMESPACE/OBJECT as given on the command line."""

    namespace: str
    object: str | None

    def __str__(self) -> str:
        return self.namespace if self.object is None else f"{self.namespace}/{self.object}"


def place_argument(metavar: str) -> Callable[[Verb], Verb]:
    """The argument `place` in one of the forms NAMESPACE, NAMESPACE/OBJECT and NAMESPACE[/OBJECT]."""

    def parse(ctx: click.Context, param: click.Parameter, value: str) -> Place:
        namespace, slash, name = value.partition("/")
        if bool(slash) != ("/" in metavar) and "[" not in metavar:
            raise click.BadParameter(f"{value!r} is not of the form {metavar}", ctx, param)
        check_name(namespace)
        return Place(namespace=namespace, object=check_name(name) if slash else None)

    return click.argument("place", metavar=metavar, callback=parse)
