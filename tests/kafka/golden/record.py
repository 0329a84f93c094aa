"""Record what a real Apache Kafka says, byte for byte: `python tests/kafka/golden/record.py`.

It starts a broker behind a recording proxy, lets each foreign client use it, asks it one request of ours in every version,
then reads the raw records of `__consumer_offsets`. The result is tests/wire/golden/*.json, which is committed.
"""

import json
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

import confluent_kafka as ck
from clients import aiokafka_client, confluent, kafka_python
from proxy import Exchange, RecordingProxy
from sweep import requests_and_responses, sweep

from apportion.testing.kafka import RealKafka, free_ports, jars_of

HERE = Path(__file__).resolve().parent
OUT = HERE.parents[1] / "wire" / "golden"
LARGEST = 16_000  # bytes of a frame that is kept
OF_ONE_KIND = 3  # exchanges kept for one client, API and version ...
OF_MANY_KINDS = 12  # ... but of an API whose messages say many things, and of the records of one key type
LATER = {11: "JoinGroup", 12: "Heartbeat", 13: "LeaveGroup", 14: "SyncGroup", 15: "DescribeGroups"}  # recorded, not yet ours
RICH = {8, 9, 68, 69}


def main() -> None:
    """The files in OUT are what a broker of this version said just now."""
    with tempfile.TemporaryDirectory() as place:
        (front,) = free_ports(1)
        listeners = {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{front}", "offsets.topic.num.partitions": "5"}
        with RealKafka(jars_of(HERE.parent / "pom.xml"), Path(place), listeners) as kafka:
            proxy = RecordingProxy(int(kafka.bootstrap.rpartition(":")[2]), front)
            proxy.start()
            speakers = record_clients(proxy, f"127.0.0.1:{front}")
            records = offset_records(f"127.0.0.1:{front}")
            write(proxy.exchanges, records, kafka.version, speakers)


def record_clients(proxy: RecordingProxy, bootstrap: str) -> dict[str, str]:
    """Each client had its turn; its short name -> its name and version."""
    speakers = {}
    for client, use in (("confluent", confluent), ("kafka-python", kafka_python), ("aiokafka", aiokafka_client)):
        print(f"{client} …", flush=True)
        proxy.client = client
        speakers[client] = use(bootstrap)
    print("sweep …", flush=True)
    proxy.client = "sweep"
    for refusal in sweep(bootstrap):
        print(f"  not answered: {refusal}")
    speakers["sweep"] = "requests of our own codec: only the responses are a witness"
    proxy.client = "records"
    return speakers


def offset_records(bootstrap: str) -> list[dict[str, object]]:
    """Raw records of `__consumer_offsets`, the first of each distinct length for each type of key."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False, "enable.partition.eof": True}
    consumer = ck.Consumer(settings)
    partitions = sorted(consumer.list_topics("__consumer_offsets", 30).topics["__consumer_offsets"].partitions)
    consumer.assign([ck.TopicPartition("__consumer_offsets", index, ck.OFFSET_BEGINNING) for index in partitions])
    kept: dict[tuple[object, ...], dict[str, object]] = {}
    ended = 0
    while ended < len(partitions):
        message = consumer.poll(30)
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


def write(exchanges: list[Exchange], records: list[dict[str, object]], version: str, speakers: dict[str, str]) -> None:
    """One file an API, and one for the records."""
    known = requests_and_responses()
    kinds: dict[int, dict[tuple[str, int], list[Exchange]]] = defaultdict(lambda: defaultdict(list))
    for each in exchanges:
        kind = kinds[each.key][each.client, each.version]
        sizes = [(len(other.request), len(other.response)) for other in kind]
        fits = len(each.request) <= LARGEST and len(each.response) <= LARGEST
        if (
            each.client in speakers
            and fits
            and len(kind) < (OF_MANY_KINDS if each.key in RICH else OF_ONE_KIND)
            and (len(each.request), len(each.response)) not in sizes
        ):
            kind.append(each)
    OUT.mkdir(exist_ok=True)
    for old in OUT.glob("*.json"):
        old.unlink()
    for key, by_kind in sorted(kinds.items()):
        frames = [
            {"client": client, "version": number, "request": each.request.hex(), "response": each.response.hex()}
            for (client, number), kind in sorted(by_kind.items())
            for each in kind
        ]
        name = known[key]["request"].__name__.removesuffix("Request") if key in known else LATER.get(key, f"api_{key}")
        head = {
            "kafka": version,
            "key": key,
            "api": name,
            "clients": {client: speakers[client] for client in {f["client"] for f in frames}},
        }
        save(OUT / f"{name}.json", head, "frames", frames)
    save(OUT / "offsets_records.json", {"kafka": version}, "records", records)


def save(path: Path, head: dict[str, object], name: str, rows: list[dict[str, object]]) -> None:
    """One line a row, so that a diff of two recordings can be read."""
    lines = ",\n  ".join(json.dumps(row, sort_keys=True) for row in rows)
    path.write_text(json.dumps(head, sort_keys=True, indent=1)[:-2] + f',\n "{name}": [\n  {lines}\n ]\n}}\n')
    print(f"  {path.name}: {len(rows)}")


if __name__ == "__main__":
    sys.exit(main())
