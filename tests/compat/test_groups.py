"""confluent-kafka's consumers of the new protocol: three members that come, go and die."""

import json
import multiprocessing
import os
import signal
import time

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

PARTITIONS = 6
DEADLINE_SECONDS = 30

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # kafka-python's, of another module


def consume(bootstrap, name, out_path, stop):
    """One member: writes what it owns and what it has read, a JSON line for each event, until told to stop."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "g",
            "group.protocol": "consumer",
            "client.id": name,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 100,
        }
    )
    with open(out_path, "w", buffering=1) as out:

        def say(**what):
            out.write(json.dumps(what) + "\n")

        def say_owned(consumer, _):
            say(owned=sorted(each.partition for each in consumer.assignment()))

        def assigned(consumer, partitions):
            consumer.incremental_assign(partitions)
            say_owned(consumer, partitions)

        def revoked(consumer, partitions):
            consumer.incremental_unassign(partitions)
            say_owned(consumer, partitions)

        consumer.subscribe(["t"], on_assign=assigned, on_revoke=revoked, on_lost=revoked)
        while not stop.is_set():
            message = consumer.poll(0.05)
            if message is not None and message.error() is None:
                say(read=[message.partition(), message.offset()])
        consumer.close()


class Member:
    """A consumer in a process of its own, so that it can die."""

    def __init__(self, served, name, directory):
        context = multiprocessing.get_context("spawn")
        self.path = directory / f"{name}.jsonl"
        self.path.touch()
        self.stop = context.Event()
        self.process = context.Process(target=consume, args=(served.bootstrap, name, self.path, self.stop))
        self.process.start()

    def said(self):
        return [json.loads(line) for line in self.path.read_text().splitlines(keepends=True) if line.endswith("\n")]

    def owned(self):
        return next((each["owned"] for each in reversed(self.said()) if "owned" in each), [])

    def read(self):
        return [tuple(each["read"]) for each in self.said() if "read" in each]

    def leave(self):
        self.stop.set()
        self.process.join(20)
        assert self.process.exitcode == 0

    def crash(self):
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.join()


def until(condition, what):
    """`condition` has come true; how many seconds that took."""
    start = time.monotonic()
    while not condition():
        assert time.monotonic() - start < DEADLINE_SECONDS, f"still not: {what}"
        time.sleep(0.05)
    return time.monotonic() - start


def shared_by(*members):
    """True when these members own all partitions, each of them once and none more than its share."""
    owned = [member.owned() for member in members]
    sizes = [len(each) for each in owned]
    return sorted(partition for each in owned for partition in each) == list(range(PARTITIONS)) and max(sizes) - min(sizes) <= 1


def test_three_members_share_leave_and_die_and_every_record_is_read(served, tmp_path):
    admin = AdminClient({"bootstrap.servers": served.bootstrap})
    admin.create_topics([NewTopic("t", PARTITIONS, 1)])["t"].result(10)
    producer = Producer({"bootstrap.servers": served.bootstrap})
    sent = []

    def produce(count):
        for _ in range(count):
            producer.produce("t", b"x", on_delivery=lambda error, message: sent.append((message.partition(), message.offset())))
        assert producer.flush(20) == 0

    produce(300)
    first = Member(served, "first", tmp_path)
    until(lambda: shared_by(first), "one member owns everything")
    second = Member(served, "second", tmp_path)
    until(lambda: shared_by(first, second), "two members share")
    third = Member(served, "third", tmp_path)
    until(lambda: shared_by(first, second, third), "three members share")
    produce(300)
    everybody = [first, second, third]
    until(lambda: set(sent) <= {place for member in everybody for place in member.read()}, "everything is read")
    state = admin.describe_consumer_groups(["g"])["g"].result(10)
    assert (state.state.name, len(state.members)) == ("STABLE", 3)

    third.leave()
    took = until(lambda: shared_by(first, second), "two members share what the third has left")
    assert took < 10, "a leave is not found out by a timeout"
    second.crash()
    until(lambda: shared_by(first), "the last member has what the dead one had")
    produce(300)
    until(lambda: set(sent) <= {place for member in everybody for place in member.read()}, "everything is read again")
    first.leave()


def test_members_go_on_after_the_broker_was_killed(served, tmp_path):
    admin = AdminClient({"bootstrap.servers": served.bootstrap})
    admin.create_topics([NewTopic("t", PARTITIONS, 1)])["t"].result(10)
    first, second = Member(served, "first", tmp_path), Member(served, "second", tmp_path)
    until(lambda: shared_by(first, second), "two members share")
    before = first.owned(), second.owned()
    served.kill()
    served.start()
    producer = Producer({"bootstrap.servers": served.bootstrap})
    for partition in range(PARTITIONS):
        producer.produce("t", b"x", partition=partition)
    assert producer.flush(20) == 0
    everything = {(partition, 0) for partition in range(PARTITIONS)}
    until(lambda: everything <= {*first.read(), *second.read()}, "everything is read")
    assert (first.owned(), second.owned()) == before
    first.leave()
    second.leave()
