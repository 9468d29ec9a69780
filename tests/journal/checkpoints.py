"""Checkpoints as Spark 4.1 lays them out, made by hand: names and contents copied from real ones."""

from __future__ import annotations

import io
import json
import zipfile
from typing import TYPE_CHECKING, Literal

from journal.checkpoint.checks import Diagnosis, diagnose, wanted_contents
from journal.checkpoint.layout import arrange
from journal.volume import FileStatus
from sos_client.wire.checksum import crc32c

if TYPE_CHECKING:
    from journal.records.shards import Shard

Kind = Literal["none", "hdfs", "rocksdb", "changelog", "changelog2"]
QUERY_ID = "1b8f9fd1-35c1-4f86-b703-17214bea40b1"
_EXTENSION = {"hdfs": "delta", "rocksdb": "zip", "changelog": "changelog", "changelog2": "changelog"}


def offsets(batch: int) -> bytes:
    conf = {"spark.sql.shuffle.partitions": "2"}
    metadata = {"batchWatermarkMs": 0, "batchTimestampMs": 1795014887506 + batch, "conf": conf}
    return f'v1\n{json.dumps(metadata)}\n{{"offset":{5 * batch},"timestamp":2000}}'.encode()


def unique_id(version: int, partition: int) -> str:
    return f"319179a7-66b4-4203-a31f-{version:06}{partition:06}"


def commit(batch: int, kind: Kind) -> bytes:
    if kind != "changelog2":
        return b'v1\n{"nextBatchWatermarkMs":0}'
    ids = [[unique_id(batch + 1, partition)] for partition in range(2)]
    return f"v2\n{json.dumps({'nextBatchWatermarkMs': 0, 'stateUniqueIds': {'0': ids}})}".encode()


def checkpoint(kind: Kind, *, batches: int = 4) -> dict[str, bytes]:
    """Files by path, with the state of `batches` committed batches and one more that is planned."""
    files = {"metadata": json.dumps({"id": QUERY_ID}).encode()}
    for batch in range(batches + 1):
        files[f"offsets/{batch}"] = offsets(batch)
    for batch in range(batches):
        files[f"commits/{batch}"] = commit(batch, kind)
        for partition in range(2) if kind != "none" else ():
            files |= _state(kind, batch + 1, partition)
    if kind != "none":
        stores = [{"storeName": "default", "numColsPrefixKey": 0, "numPartitions": 2}]
        operator = {"operatorInfo": {"operatorId": 0, "operatorName": "stateStoreSave"}, "stateStoreInfo": stores}
        files["state/0/_metadata/metadata"] = b"v1\n" + json.dumps(operator).encode()
    return files


def _state(kind: Kind, version: int, partition: int) -> dict[str, bytes]:
    folder, name = f"state/0/{partition}", str(version)
    if kind == "changelog2":
        name += f"_{unique_id(version, partition)}"
    content, extra = f"state {version} {partition}".encode(), dict[str, bytes]()
    if kind == "rocksdb":
        sst = f"{version:06}-91a3c714.sst"
        extra[f"{folder}/SSTs/{sst}"] = b"s" * 100
        content = rocksdb_zip({sst: 100})
    path = f"{folder}/{name}.{_EXTENSION[kind]}"
    checksum = {"algorithm": "CRC32C", "value": crc32c(content), "mainFileSize": len(content), "timestampMs": 1}
    return {path: content, f"{path}.crc": json.dumps(checksum).encode()} | extra


def rocksdb_zip(ssts: dict[str, int]) -> bytes:
    listed = [{"localFileName": name[:6], "dfsSstFileName": name, "sizeBytes": size} for name, size in ssts.items()]
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("CURRENT", "MANIFEST-000005\n")
        archive.writestr("metadata", "v1\n" + json.dumps({"sstFiles": listed, "numKeys": 1}))
    return packed.getvalue()


def examine(files: dict[str, bytes], shard: Shard | None = None) -> Diagnosis:
    statuses = [
        FileStatus(path=f"q/{path}", is_directory=False, size=len(data), modified_ms=1, crc=crc32c(data))
        for path, data in files.items()
    ]
    found = arrange("q", statuses)
    return diagnose(found, {path: files[path] for path in wanted_contents(found)}, home="sos://v/q", shard=shard)
