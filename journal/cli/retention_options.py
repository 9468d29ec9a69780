"""Options that say how much of the past is kept, and the words that show it."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from journal.kept_past import Retention
from sos_client.command.connecting import decorated
from sos_client.command.output import duration_text, size_text
from sos_client.command.setting_flags import flag_options
from sos_client.declarations import Form, declared, said

if TYPE_CHECKING:
    from collections.abc import Callable

    from sos_client.command.connecting import Verb


def retention_options(*, otherwise: str) -> Callable[[Verb], Verb]:
    """Gives the verb `retention`, None if nothing was said; `otherwise`: what holds then, in words."""

    def with_options(function: Verb) -> Verb:
        @functools.wraps(function)
        def wrapper(*args: Any, **options: Any) -> Any:
            limits = said(Retention, options)
            for one in declared(Retention).values():
                del options[one.parameter]
            return function(*args, retention=Retention(**limits) if limits else None, **options)

        return decorated(wrapper, flag_options(Retention, otherwise=otherwise))

    return with_options


def limit_texts(retention: Retention) -> list[str]:
    """Each limit that there is, for people."""
    limits = [(one.form, getattr(retention, name)) for name, one in declared(Retention).items()]
    return [duration_text(limit * 1000) if form is Form.AGE else size_text(limit) for form, limit in limits if limit]
