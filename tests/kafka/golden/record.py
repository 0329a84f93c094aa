"""Record what a real Apache Kafka says, byte for byte: `python -m tests.kafka.golden.record [API]`.

It starts a broker behind a recording proxy, lets each foreign client use it, asks it one request of
ours in every version, has a classic group of ours live through what such groups may, then reads the
raw records of `__consumer_offsets`. The result is tests/wire/golden/*.json, which is committed.
With the name of an API only the file of that one is written.
"""

import json
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import confluent_kafka as ck

from apportion.testing.kafka import RealKafka, free_ports, jars_of
from tests.kafka.golden.classic import KEYS, classic, prepare
from tests.kafka.golden.clients import aiokafka_client, confluent, kafka_python
from tests.kafka.golden.proxy import Exchange, RecordingProxy
from tests.kafka.golden.sweep import requests_and_responses, sweep

HERE = Path(__file__).resolve().parent
OUT = HERE.parents[1] / "wire" / "golden"
LARGEST = 16_000  # bytes of a frame that is kept
OF_ONE_KIND = 3  # exchanges kept for one client, API and version ...
# ... but of an API whose messages say many things, and of the records of one key type
OF_MANY_KINDS = 20
RICH = {8, 9, 68, 69, *KEYS}
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
"""Without one, a Kafka refuses all requests about ACLs."""
OURS = "requests of our own codec: only the responses are a witness"


def main(only: str) -> None:
    """The files in OUT are what a broker of this version said just now; or that of one API."""
    with tempfile.TemporaryDirectory() as directory:
        (front,) = free_ports(1)
        listeners = {
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{front}",
            "offsets.topic.num.partitions": "5",
            **AUTHORIZER,
        }
        with RealKafka(jars_of(HERE.parent / "pom.xml"), Path(directory), listeners) as kafka:
            proxy = RecordingProxy(int(kafka.bootstrap.rpartition(":")[2]), front)
            proxy.start()
            bootstrap = f"127.0.0.1:{front}"
            speakers = record_clients(proxy, bootstrap)
            exchanges = [each for each in proxy.exchanges if each.client in speakers]
            write(exchanges, offset_records(bootstrap), kafka.version, speakers, only)


def record_clients(proxy: RecordingProxy, bootstrap: str) -> dict[str, str]:
    """Each client had its turn; its short name -> its name and version."""
    speakers = {}
    for client, use in (
        ("confluent", confluent),
        ("kafka-python", kafka_python),
        ("aiokafka", aiokafka_client),
    ):
        print(f"{client} …", flush=True)
        proxy.client = client
        speakers[client] = use(bootstrap)
    print("sweep …", flush=True)
    proxy.client = "sweep"
    for refusal in sweep(bootstrap):
        print(f"  not answered: {refusal}")
    print("classic …", flush=True)
    proxy.client = ""
    prepare(bootstrap)
    proxy.client = "classic"
    classic(bootstrap)
    proxy.client = ""
    return speakers | {"sweep": OURS, "classic": OURS}


def offset_records(bootstrap: str) -> list[dict[str, object]]:
    """Raw records of `__consumer_offsets`, the first of each length for each type of key."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "reader",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
    }
    consumer = ck.Consumer(settings)
    partitions = sorted(
        consumer.list_topics("__consumer_offsets", 30).topics["__consumer_offsets"].partitions
    )
    consumer.assign(
        [
            ck.TopicPartition("__consumer_offsets", index, ck.OFFSET_BEGINNING)
            for index in partitions
        ]
    )
    kept: dict[tuple[object, ...], dict[str, object]] = {}
    ended = 0
    while ended < len(partitions):
        message: Any = consumer.poll(30)
        assert message is not None
        if message.error():
            ended += 1
            continue
        key, value = message.key(), message.value()
        shape = (int.from_bytes(key[:2], "big"), len(key), None if value is None else len(value))
        row = {"type": shape[0], "key": key.hex(), "value": None if value is None else value.hex()}
        if sum(1 for known in kept if known[0] == shape[0]) < OF_MANY_KINDS:
            kept.setdefault(shape, row)
    consumer.close()
    return [kept[shape] for shape in sorted(kept, key=repr)]


def write(
    exchanges: list[Exchange],
    records: list[dict[str, object]],
    version: str,
    speakers: dict[str, str],
    only: str,
) -> None:
    """One file an API, and one for the records; or that of the API `only`."""
    known = requests_and_responses()
    OUT.mkdir(exist_ok=True)
    if not only:
        for old in OUT.glob("*.json"):
            old.unlink()
        save(OUT / "offsets_records.json", {"kafka": version}, "records", records)
    for key, frames in sorted(frames_of(exchanges).items()):
        name = (
            known[key]["request"].__name__.removesuffix("Request") if key in known else f"api_{key}"
        )
        if only in ("", name):
            save_api(name, {"kafka": version, "key": key, "api": name}, speakers, frames)


def frames_of(exchanges: list[Exchange]) -> dict[int, list[dict[str, object]]]:
    """By key of the API: a few exchanges of distinct sizes for each speaker and version."""
    kinds: dict[int, dict[tuple[str, int], list[Exchange]]] = defaultdict(lambda: defaultdict(list))
    for each in exchanges:
        if each.client == "classic" and each.key not in KEYS:
            continue  # what it needed besides
        kind = kinds[each.key][each.client, each.version]
        sizes = [(len(other.request), len(other.response)) for other in kind]
        fits = len(each.request) <= LARGEST and len(each.response) <= LARGEST
        is_new = (len(each.request), len(each.response)) not in sizes
        if fits and is_new and len(kind) < (OF_MANY_KINDS if each.key in RICH else OF_ONE_KIND):
            kind.append(each)
    return {
        key: [
            {
                "client": client,
                "version": number,
                "request": each.request.hex(),
                "response": each.response.hex(),
            }
            for (client, number), kind in sorted(by_kind.items())
            for each in kind
        ]
        for key, by_kind in kinds.items()
    }


def save_api(
    name: str, head: dict[str, object], speakers: dict[str, str], frames: list[dict[str, object]]
) -> None:
    """The file of one API, which names those who speak in it."""
    head["clients"] = {
        client: speakers[client] for client in {str(frame["client"]) for frame in frames}
    }
    save(OUT / f"{name}.json", head, "frames", frames)


def save(path: Path, head: dict[str, object], name: str, rows: list[dict[str, object]]) -> None:
    """One line a row, so that a diff of two recordings can be read."""
    lines = ",\n  ".join(json.dumps(row, sort_keys=True) for row in rows)
    path.write_text(
        json.dumps(head, sort_keys=True, indent=1)[:-2] + f',\n "{name}": [\n  {lines}\n ]\n}}\n'
    )
    print(f"  {path.name}: {len(rows)}")


if __name__ == "__main__":
    sys.exit(main("".join(sys.argv[1:])))  # type: ignore[func-returns-value]
