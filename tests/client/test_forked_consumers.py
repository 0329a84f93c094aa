"""A consumer that was made before a fork belongs to the parent: the child can only say so."""

import os
from contextlib import closing
from typing import Any

import pytest

import apportion
from apportion.client.cluster import Cluster
from apportion.server.embedded import EmbeddedBroker


def what_a_child_says(consumer: apportion.Consumer, pipe: int) -> None:
    """Write to the pipe what each call raises in this process, and end it."""
    said = []
    for call in (consumer.poll, consumer.commit, lambda: next(iter(consumer)), consumer.close):
        try:
            call()
            said.append("nothing")
        except RuntimeError as error:
            said.append(str(error))
    os.write(pipe, "\n".join(said).encode())
    os._exit(0)


@pytest.mark.parametrize("protocol", ["consumer", "classic"])
def test_a_forked_process_is_refused_and_leaves_its_parents_membership(protocol: Any) -> None:
    with EmbeddedBroker() as broker, closing(Cluster(broker.bootstrap)) as cluster:
        cluster.create_topic("t", 1)
        with apportion.Consumer(
            broker.bootstrap, "g", topics=["t"], group_protocol=protocol
        ) as consumer:
            while not consumer.assignment:
                consumer.poll(100)
            before = consumer.session.status()
            ours, childs = os.pipe()
            child = os.fork()
            if not child:
                what_a_child_says(consumer, childs)
            os.close(childs)
            with os.fdopen(ours) as pipe:
                said = pipe.read().splitlines()
            os.waitpid(child, 0)
            consumer.poll(0)
            consumer.commit()
            after = consumer.session.status()
    refusal = (
        f"this consumer was made in process {os.getpid()}, before a fork: make a consumer of its "
        "own in each process that reads"
    )
    assert said == [refusal, refusal, refusal, "nothing"]
    assert (after.member_id, after.epoch, after.owned) == (
        before.member_id,
        before.epoch,
        before.owned,
    )
