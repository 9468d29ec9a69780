"""What the journal says through the standard `logging`, as lines of the service's own log."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sos_client.serving.event_log import EventLog


class LogBridge(logging.Handler):
    """Passes records of `logging` on: the message is the event, `extra` is not looked at."""

    def __init__(self, log: EventLog) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        fields: dict[str, object] = {"part": record.name}
        if record.exc_info and record.exc_info[1]:
            fields["error"] = str(record.exc_info[1])
        if record.levelno >= logging.ERROR:
            self._log.error(record.getMessage(), **fields)
        elif record.levelno >= logging.WARNING:
            self._log.warning(record.getMessage(), **fields)
        elif record.levelno >= logging.INFO:
            self._log.info(record.getMessage(), **fields)
        else:
            self._log.debug(record.getMessage(), **fields)


def bridge_logging(log: EventLog, *, name: str = "journal") -> None:
    """From now on everything below this logger's name goes into `log`."""
    logger = logging.getLogger(name)
    logger.setLevel(logging.DEBUG)
    logger.handlers = [LogBridge(log)]
    logger.propagate = False
