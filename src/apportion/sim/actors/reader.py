"""A plain consumer: an application that reads record by record, as `apportion.Consumer` does.

It works on the records that the rule delivers, and commits by itself or leaves that to the rule.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from apportion.errors import Refused, Unanswerable
from apportion.member.metadata_cache import MetadataCache
from apportion.member.records.queries import CallListener
from apportion.member.records.record_ownership import RecordConsumerSettings
from apportion.sim.actors.record_application import (
    ANSWERS,
    ObservedConsumer,
    RecordApplication,
)
from apportion.sim.kernel.client import REQUEST_TIMEOUT_MS, Sleep
from apportion.sim.kernel.clock import Script
from apportion.wire.messages.list_offsets import EARLIEST

POLL_TIMEOUT_MS = 500
MAX_POLL_RECORDS = 500
RETRY_MS = 200


class Reader(RecordApplication):
    """One plain consumer. All readers form one group.

    commits_automatically: by `auto_commit`; otherwise it commits after some of its polls, and in
    `on_revoked`.
    """

    group = "readers"

    def __init__(self, *facts: Any) -> None:
        super().__init__(*facts)
        self.max_poll_records = self.rng.choice((1, 10, MAX_POLL_RECORDS))

    def script(self) -> Script:
        """Poll until the process ends."""
        scenario = self.simulation.scenario
        self.metadata = MetadataCache()
        self.commits_automatically = self.rng.random() < 0.5
        self.rule = ObservedConsumer(
            RecordConsumerSettings(
                group_id=self.group,
                reset=EARLIEST,
                auto_commit_ms=(
                    self.rng.choice((200, 1_000, 3_000)) if self.commits_automatically else None
                ),
                max_poll_interval_ms=scenario.rebalance_ms,
                request_timeout_ms=REQUEST_TIMEOUT_MS,
            ),
            self.report_failed_commit,
        )
        self.rule.topics, self.rule.expression = self.topics, self.expression
        while True:
            try:
                yield from self._poll()
            except (Refused, Unanswerable):
                yield Sleep(RETRY_MS)

    def subscribe(self, topics: tuple[str, ...], expression: str = "") -> None:
        """Change the topics to which the simulated consumer subscribes, and its expression."""
        self.expression = expression
        super().subscribe(topics)
        if self.is_up and self.is_working:
            self.rule.topics, self.rule.expression = topics, expression

    def stop(self) -> None:
        """Close the consumer: give up its partitions by the rule, then leave the group."""
        if self.is_up:
            self.give_up_partitions(super().stop)

    def _poll(self) -> Script:
        """Poll once, work on the records, and perhaps commit."""
        records = yield from self.poll_records(POLL_TIMEOUT_MS, self.max_poll_records)
        if records:
            yield Sleep(self.work_ms(self.simulation.scenario.batch_ms))
        if not self.commits_automatically and (not records or self.rng.random() < 0.5):
            yield from self.run_rule(self.rule.commit(self.rule.uncommitted()))

    def _call_listener(self, query: CallListener) -> Script:
        if query.name == "on_revoked" and not self.commits_automatically:
            # As a careful listener does: the partitions go, whether the commit succeeds or not.
            try:
                yield from self.run_rule(self.rule.commit(self.rule.uncommitted()))
            except (Refused, Unanswerable) as error:
                self.simulation.write_trace(self.name, f"cannot commit what goes: {error}")
        yield Sleep(self.work_ms(100))

    answers: ClassVar[Mapping[type, Any]] = {**ANSWERS, CallListener: _call_listener}
