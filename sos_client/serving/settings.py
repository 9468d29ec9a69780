"""What everybody who serves can be told: where, with which certificate, to whom, and what it logs. Pure."""

from __future__ import annotations

from typing import Final

from sos_client.declarations import Form, Setting

LOG_LEVELS: Final = ("debug", "info", "warning", "error")

METRICS: Final = Setting(
    "serve metrics for Prometheus at this HOST:PORT", flag="--metrics", form=Form.ADDRESS, fixed=True
)
WEB: Final = Setting(
    "serve the page, /status.json, /readyz and /metrics at this HOST:PORT", flag="--web", form=Form.ADDRESS, fixed=True
)
CERTIFICATE: Final = Setting(
    "certificate chain for clients (PEM); only TLS is spoken then", flag="--tls-cert", form=Form.FILE
)
KEY: Final = Setting("private key of that certificate (PEM)", flag="--tls-key", form=Form.FILE)
TOKENS: Final = Setting(
    "tokens of clients (see `sos-server token`); none: everyone may do everything", flag="--tokens", form=Form.FILE
)
