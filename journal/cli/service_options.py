"""Options of the commands that own volumes and serve their files, and what they come to."""

from __future__ import annotations

import itertools
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import click

from journal.cli.retention_options import retention_options
from journal.errors import JournalCode, JournalError, refused
from journal.kept_past import Retention
from journal.owner.opening import open_journal
from journal.records.settings import JournalSettings, Surroundings
from journal.service.serve import ServeSettings
from journal.takeover.volume_creation import check_name_is_free, create_volume
from sos_client.clear_text import check_token_stays
from sos_client.command.connecting import TLS_CA_OPTION, TLS_OPTION, TOKEN_FILE_OPTION, decorated
from sos_client.command.parameters import DIRECTORY, AddressList
from sos_client.command.serving import LOG_LEVEL_OPTION, SERVING_OPTIONS
from sos_client.command.setting_flags import flag_options
from sos_client.credentials import tls_context, token_of
from sos_client.declarations import said
from sos_client.net.addresses import parse_address
from sos_client.serving.event_log import EventLog, Level
from sos_client.serving.tls import tls_files
from sos_client.wire.names import check_name

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from contextlib import AbstractAsyncContextManager

    from journal.owner.journal import Journal
    from journal.service.serve import OpenVolume, ServeWeb
    from sos_client.command.connecting import Verb

_OPTIONS: Final[tuple[Callable[[Verb], Verb], ...]] = (
    click.option(
        "--servers",
        "--server",
        multiple=True,
        type=AddressList(),
        envvar="SOS_SERVERS",
        help="SOS servers [SOS_SERVERS].",
    ),
    click.option(
        "--dir",
        "--directory",
        "directory",
        type=DIRECTORY,
        required=True,
        help="Local copies, one directory for each volume. A cache: losing it loses nothing.",
    ),
    click.option(
        "--advertise", default="", metavar="HOST:PORT", help="Where others are sent; default: where it listens."
    ),
    *SERVING_OPTIONS,
    TOKEN_FILE_OPTION,
    TLS_OPTION,
    TLS_CA_OPTION,
    click.option("--standby", is_flag=True, help="Take a volume over only when the process that has it is silent."),
    click.option("--create", is_flag=True, help="Make a volume that no server has yet."),
    retention_options(otherwise="as the volume was made"),
    *flag_options(JournalSettings),
    LOG_LEVEL_OPTION,
)


def service_options(function: Verb) -> Verb:
    """Options for `service_settings` and `journal_settings`; each command adds where it listens, and --insecure."""
    return decorated(function, _OPTIONS)


def service_settings(
    options: dict[str, Any], *, volumes: Sequence[str], listen: str, what: str = "--listen"
) -> ServeSettings:
    """What the service is told: these volumes, at this address (of the option `what`)."""
    if not options["servers"]:
        raise click.UsageError("say where the SOS servers are: --servers HOST:PORT,HOST:PORT,… (or SOS_SERVERS)")
    metrics = options["metrics"]
    return ServeSettings(
        volumes=tuple(dict.fromkeys(check_name(name) for name in volumes)),
        servers=tuple(itertools.chain.from_iterable(options["servers"])),
        directory=options["directory"],
        listen=parse_address(listen, what=what),
        share_port=options.get("share_port", False),
        advertise=options["advertise"],
        metrics=parse_address(metrics, what="--metrics") if metrics else None,
        web=parse_address(options["web"], what="--web") if options["web"] else None,
        tls=tls_files(options["tls_cert"], options["tls_key"]),
        tokens=options["tokens"],
        insecure=options["insecure"],
        standby=options["standby"],
        token=token_of(options["token_file"]),
        authorities=tls_context(options["tls_ca"], wanted=options["tls"]),
        exit_with_handle=options["exit_with_fd"],
        log=EventLog(least=Level[options["log_level"].upper()]),
    )


def web_server(settings: ServeSettings) -> ServeWeb | None:
    """What serves the page, if it is wanted. Imports what only this needs, a tenth of a start."""
    if settings.web is None:
        return None
    from journal.web.serving import serve_web

    return serve_web


def journal_settings(options: dict[str, Any]) -> JournalSettings:
    """What the volumes keep."""
    return JournalSettings(retention=options["retention"] or Retention(), **said(JournalSettings, options))


def volume_opener(settings: ServeSettings, writing: JournalSettings, *, create: bool) -> OpenVolume:
    """How a service opens a volume; with `create`, one that no server has yet is made."""
    encrypted = settings.insecure or settings.authorities is not None
    check_token_stays(settings.servers, token=settings.token, encrypted=encrypted)
    surroundings = Surroundings(
        token=settings.token, tls=settings.authorities, insecure=settings.insecure, log=settings.log
    )

    def take_over(volume: str, unless_above: int | None) -> AbstractAsyncContextManager[Journal]:
        return open_journal(
            volume,
            servers=settings.servers,
            directory=settings.directory,
            settings=writing,
            surroundings=surroundings,
            unless_above=unless_above,
        )

    @asynccontextmanager
    async def opened(volume: str, unless_above: int | None) -> AsyncIterator[Journal]:
        async with AsyncExitStack() as stack:
            try:
                journal = await stack.enter_async_context(take_over(volume, unless_above))
            except JournalError as error:
                if error.code is not JournalCode.VOLUME_NOT_FOUND or not create:
                    raise
                await _check_not_made_otherwise(volume, settings, surroundings)
                await create_volume(volume, settings.servers, surroundings=surroundings, settings=writing)
                journal = await stack.enter_async_context(take_over(volume, unless_above))
            yield journal

    return opened


async def _check_not_made_otherwise(volume: str, settings: ServeSettings, surroundings: Surroundings) -> None:
    """BAD_REQUEST, which no trying again mends, if there is a volume of this name that is spread in another way."""
    try:
        await check_name_is_free(volume, settings.servers, surroundings)
    except JournalError as error:
        if error.code is not JournalCode.VOLUME_EXISTS:
            raise
        count = error.fields["shards"]
        how = "without --shards" if count is None else f"with --shards {count!s}"
        raise refused(JournalCode.BAD_REQUEST, f"{error.message}: serve it {how}") from error
