"""The laws of a whole group, whose members compute its targets: well, wrongly, late, or never."""

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import rule

from apportion.errors import Code
from apportion.wire.fields import replaced
from apportion.wire.messages.consumer_group_heartbeat import ClientAssignor
from apportion.wire.messages.consumer_group_install_assignment import (
    ConsumerGroupInstallAssignmentRequest,
    InstalledMember,
    InstalledPartitions,
)
from apportion.wire.records.groups import ConsumerGroupMemberMetadataValue
from tests.coord.client_side import offer, prepare
from tests.coord.consumer_client import Client
from tests.coord.test_membership_laws import ConsumerGroupMachine

OFFERS = st.sampled_from(
    [
        (offer(),),
        (offer(),),
        (offer(maximum_version=2, version=1), offer("other")),
        (offer(minimum_version=1, maximum_version=2, version=2), offer("other")),
        (),
        None,
    ]
)
DEFECTS = st.sampled_from(["none"] * 3 + ["twice", "stranger", "beyond", "stale", "silent"])


class OfferingClient(Client):
    """A client that offers assignors, and knows whether it was told to compute."""

    offers: tuple[ClientAssignor, ...] | None = (offer(),)
    prepared: Any = None
    prepared_topics: Any = None
    must_compute = False
    habit = "none"
    error = 0

    def facts(self, assignor: Any = None) -> Any:
        facts = super().facts(assignor)
        return facts | {"client_assignors": self.offers} if self.is_news else facts

    def hear(self, answer: Any) -> None:
        if answer.error_code == Code.UNSUPPORTED_ASSIGNOR:
            self.offers, self.is_news = None, True  # it is set up anew
            return
        super().hear(answer)
        self.must_compute = self.must_compute or answer.should_compute_assignment


class ClientAssignorMachine(ConsumerGroupMachine):
    """Clients that offer assignors, or not, and compute when they are told to, or badly."""

    client_class = OfferingClient

    @rule(which=st.integers(0, 3), offers=OFFERS, metadata=st.binary(max_size=2))
    def offer_assignors(
        self, which: int, offers: tuple[ClientAssignor, ...] | None, metadata: bytes
    ) -> None:
        client: Any = self.pick(which)
        if client:
            client.offers = offers and tuple(replaced(each, metadata=metadata) for each in offers)
            client.is_news = True

    @rule(which=st.integers(0, 3), habit=DEFECTS, error=st.integers(-1, 1))
    def change_habit(self, which: int, habit: str, error: int) -> None:
        """A client computes in this way from now on."""
        client: Any = self.pick(which)
        if client:
            client.habit, client.error = habit, error

    def say(self, client: Any, is_lost: bool = False, assignor: Any = None) -> int:
        """A client that was told to compute prepares at once, and installs before it says more."""
        if client.prepared:
            self.install(client, client.habit, client.error)
        before = self.agreement()
        code = super().say(client, is_lost, assignor)
        member = self.members().get(client.member_id)
        if before and member and must_agree(member.metadata):
            assert self.agreement()
        if client.must_compute:
            self.prepare(client)
        return code

    def agreement(self) -> Any:
        """The client-side assignor on which the members agree."""
        group: Any = self.driver.shard.ledger.groups.get("g")
        return None if group is None else group.saved.client_assignor

    def prepare(self, client: Any) -> None:
        """A client asks for the group."""
        answer = prepare(self.driver, client.member_id, client.epoch)
        client.prepared = None if answer.error_code else answer
        client.prepared_topics = self.driver.shard.topics

    def install(self, client: Any, defect: str, error: int) -> None:
        """A client installs what it computes, with that defect."""
        told, client.prepared, client.must_compute = client.prepared, None, False
        if defect == "silent":
            return
        members = targets_of(told, defect)
        before = len(self.driver.log)
        code = self.driver.send(
            ConsumerGroupInstallAssignmentRequest(
                group_id="g",
                member_id=client.member_id,
                member_epoch=client.epoch,
                group_epoch=told.group_epoch - (defect == "stale"),
                error=error,
                members=members,
            ),
            version=0,
        ).error_code
        if defect == "stale" or (defect in ("twice", "stranger", "beyond") and told.topics):
            assert code != Code.NONE
        if code:
            assert len(self.driver.log) == before
        else:
            self.targeted = (told.group_epoch, client.prepared_topics)

    def work(self) -> None:
        """In the end all compute as they should."""
        for client in self.clients.values():
            some: Any = client
            some.habit = "none"
        super().work()


def must_agree(metadata: ConsumerGroupMemberMetadataValue) -> bool:
    """Whether the broker is not asked to assign, so the others' assignor is used or none comes."""
    return bool(metadata.client_assignors) and metadata.server_assignor is None


def targets_of(told: Any, defect: str) -> tuple[InstalledMember, ...]:
    """Each partition to the first member that subscribes to its topic, with that defect."""
    given: dict[str, list[InstalledPartitions]] = {each.member_id: [] for each in told.members}
    for topic in told.topics:
        first = next(
            each.member_id for each in told.members if topic.topic_id in each.subscribed_topic_ids
        )
        numbers = [each.partition for each in topic.partitions]
        if defect == "twice":
            numbers += numbers[:1]
        if defect == "beyond":
            numbers += [len(numbers)]
        to = "stranger" if defect == "stranger" else first
        given.setdefault(to, []).append(
            InstalledPartitions(topic_id=topic.topic_id, partitions=tuple(numbers))
        )
    return tuple(
        InstalledMember(
            member_id=member_id, topic_partitions=tuple(parts), metadata=member_id.encode()
        )
        for member_id, parts in given.items()
    )


ClientAssignorMachine.TestCase.settings = settings(
    max_examples=100, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
test_client_assignors = ClientAssignorMachine.TestCase
