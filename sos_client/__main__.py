"""`python -m sos_client` is the `sos` command."""

from sos_client.cli import main

main()
