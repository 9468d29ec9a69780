"""The options that every verb has, and what they make: an open client, run to the end of the verb."""

from __future__ import annotations

import contextlib
import math
import secrets
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click
import trio

from sos_client.attempts import Deadlines
from sos_client.clear_text import check_token_stays
from sos_client.client import SosClient, open_client
from sos_client.link import Link, open_link
from sos_client.net.dialing import tcp_dial
from sos_client.wire import messages as m
from sos_client.wire.errors import MisuseError
from sos_client.wire.limits import IDENTITY_BYTES, PROTOCOL_VERSION
from sos_client.wire.names import check_name, parse_token

DEFAULT_SERVER = "127.0.0.1:7400"

Verb = TypeVar("Verb", bound=Callable[..., Any])
T = TypeVar("T")


class Seconds(click.FloatRange):
    """A number of seconds. Nan, which click takes for a number of any range, would make a wait endless."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        seconds: float = super().convert(value, param, ctx)
        if math.isnan(seconds):
            self.fail("nan is no number of seconds", param, ctx)
        return seconds


_FILE = click.Path(path_type=Path, dir_okay=False)
_OPTIONS = (
    click.option("--server", metavar="HOST:PORT", envvar="SOS_SERVER", help=f"Where it is (default {DEFAULT_SERVER})."),
    click.option("--token", metavar="HEX", envvar="SOS_TOKEN", help="Better given as SOS_TOKEN: others see arguments."),
    click.option("--token-file", type=_FILE, envvar="SOS_TOKEN_FILE", help="File that has the token in it."),
    click.option("--tls", is_flag=True, envvar="SOS_TLS", help="Speak TLS, and trust what this system trusts."),
    click.option("--tls-ca", type=_FILE, envvar="SOS_TLS_CA", help="Speak TLS, and trust this authority (PEM)."),
    click.option("--tls-cert", type=_FILE, envvar="SOS_TLS_CERT", help="Certificate of this client (PEM)."),
    click.option("--tls-key", type=_FILE, envvar="SOS_TLS_KEY", help="Its key (PEM)."),
    click.option("--insecure", is_flag=True, help="Let the token go to another host without TLS."),
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
            token, context, deadlines = self._read_token(), self._context(), self._deadlines()
            async with open_client(
                self._address, token=token, tls=context, insecure=self.insecure, deadlines=deadlines
            ) as client:
                return await verb(client)

        return trio.run(main)

    @contextlib.asynccontextmanager
    async def open_links(self, count: int) -> AsyncIterator[list[Link]]:
        """So many bare connections, each as if from a client of its own."""
        context, token, seconds = self._context(), self._read_token(), self._deadlines().connect_seconds
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

    def _read_token(self) -> bytes | None:
        if self.token_file is not None and not self.token:
            try:
                return parse_token(self.token_file.read_text(encoding="ascii"))
            except (OSError, UnicodeDecodeError) as error:
                raise MisuseError(f"{self.token_file}: cannot be read as a token: {error}") from error
        return parse_token(self.token) if self.token else None

    def _context(self) -> ssl.SSLContext | None:
        if self.tls_key is not None and self.tls_cert is None:
            raise MisuseError("--tls-key is of no use without --tls-cert")
        if not (self.tls or self.tls_ca or self.tls_cert):
            return None
        try:
            context = ssl.create_default_context(cafile=self.tls_ca)
            if self.tls_cert is not None:
                context.load_cert_chain(self.tls_cert, self.tls_key)
        except OSError as error:  # ssl.SSLError is one
            files = ", ".join(str(path) for path in (self.tls_ca, self.tls_cert, self.tls_key) if path)
            raise MisuseError(f"{files}: cannot be used for TLS: {error.strerror or error}") from error
        return context


def connecting_options(verb: Verb) -> Verb:
    """Give a verb the options above. It gets them as one argument, `connecting`."""

    def with_options(**arguments: Any) -> Any:
        names = Connecting.__dataclass_fields__
        connecting = Connecting(**{name: arguments.pop(name) for name in names})
        return verb(connecting=connecting, **arguments)

    with_options.__name__ = verb.__name__
    with_options.__doc__ = verb.__doc__
    with_options.__click_params__ = list(getattr(verb, "__click_params__", []))  # type: ignore[attr-defined]
    for option in reversed(_OPTIONS):
        option(with_options)
    return with_options  # type: ignore[return-value]


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
