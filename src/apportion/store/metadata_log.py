"""The broker's metadata log: topics, settings, cluster and producer ids, SCRAM credentials, ACLs.

An append-only file of lines, each a CRC and one change as JSON. A change is written first and then
applied by the function that a start uses for replay. It draws no ids and validates nothing: the
caller has.
"""

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any, NamedTuple

from apportion.security.acls import (
    AclBinding,
    AclOperation,
    AclPermission,
    PatternType,
    ResourceType,
)
from apportion.security.authorizer import Acls
from apportion.security.scram_credentials import ScramCredential, ScramMechanism
from apportion.store.disk import ROOT, Damaged, Disk, DiskError
from apportion.topics import Topic, Topics
from apportion.wire.crc import crc32c

PATH = "catalog.log"

TOPIC, BROKER, GROUP = "topic", "broker", "group"
"""Kinds of resources that may have settings of their own. The broker "" stands for all brokers."""

Change = dict[str, Any]

ScramCredentials = Mapping[ScramMechanism, Mapping[str, ScramCredential]]
"""Credentials by mechanism, which has always a mapping, and by the name of the user."""
NO_CREDENTIALS: ScramCredentials = MappingProxyType(
    {mechanism: MappingProxyType({}) for mechanism in ScramMechanism}
)


class LogEnd(NamedTuple):
    """An end of the metadata log, and the credentials and ACLs that it had there."""

    size_bytes: int
    scram_credentials: ScramCredentials
    acls: Acls


EMPTY_END = LogEnd(0, NO_CREDENTIALS, Acls())


class MetadataLog:
    """The topics of this broker, the settings that were given, the cluster id, used producer ids.

    And the SCRAM credentials of users, and ACLs.

    truncated_bytes: how much at the end of the file could not be read, and the start cut off.
    """

    def __init__(self, disk: Disk) -> None:
        """Begin with an empty log; `open` reads the files."""
        self._disk = disk
        self._size_bytes = 0
        self.truncated_bytes = 0
        self._unsynced: dict[str, None] = {}  # an ordered set
        self._topics: dict[str, Topic] = {}
        # kind -> name -> its own settings; a resource without any is not there
        self._configs: dict[str, dict[str, dict[str, str]]] = {TOPIC: {}, BROKER: {}, GROUP: {}}
        self._snapshot: Topics | None = None
        self._cluster_id: str | None = None
        self._next_producer_id = 0
        self._credentials: dict[ScramMechanism, dict[str, ScramCredential]] = {
            mechanism: {} for mechanism in ScramMechanism
        }
        self._credentials_snapshot: ScramCredentials | None = NO_CREDENTIALS
        self._acls = Acls()
        # what `_acls` does not have yet: True for an ACL that was added, False for a removed one
        self._acl_changes: dict[AclBinding, bool] = {}

    @classmethod
    def open(cls, disk: Disk) -> "MetadataLog":
        """Open the broker's metadata log: replay it, and cut off a half-written last line.

        Called at a start of the broker. Without a file the log begins empty.

        Errors: Damaged, with file and line, if a line that cannot be read has readable lines behind
        it.
        """
        metadata_log = cls(disk)
        size = disk.size(PATH)
        for number, end, change in _valid_lines(bytes(disk.view(PATH, 0, size)) if size else b""):
            apply = APPLY.get(change.get("change"))
            # A newer version wrote it. To skip it might lose a topic.
            if apply is None:
                raise Damaged(
                    f"{PATH}, line {number}: a change that this version does not know: "
                    f"{change.get('change')!r}"
                )
            apply(metadata_log, change)
            metadata_log._size_bytes = end
        metadata_log.truncated_bytes = size - metadata_log._size_bytes
        if metadata_log.truncated_bytes:
            disk.resize(PATH, metadata_log._size_bytes)
        if size:  # what was read back may be in the operating system's cache only
            metadata_log._unsynced = {PATH: None, ROOT: None}
        return metadata_log

    @property
    def topics(self) -> Topics:
        """A snapshot of all topics that the broker's metadata log names."""
        if self._snapshot is None:
            self._snapshot = Topics(self._topics.values())
        return self._snapshot

    @property
    def cluster_id(self) -> str | None:
        """The id of the cluster; None until `name_cluster`."""
        return self._cluster_id

    def config_of(self, name: str, kind: str = TOPIC) -> dict[str, str]:
        """Return the own settings of a topic, group or broker by Kafka's names; {} without any."""
        return dict(self._configs[kind].get(name, {}))

    def configured(self, kind: str) -> list[str]:
        """Return the names of the resources that have settings of their own, in order."""
        return sorted(self._configs[kind])

    def configure(self, kind: str, name: str, config: Mapping[str, str]) -> None:
        """Append to the metadata log that these are all own settings of a resource now."""
        assert kind != TOPIC or name in self._topics, name
        self._record({"change": "configure", "kind": kind, "name": name, "config": dict(config)})

    def create_topic(self, topic: Topic, config: Mapping[str, str] | None = None) -> None:
        """Append a new topic with its configuration to the metadata log; the name must be free."""
        assert topic.name not in self._topics, topic.name
        self._record(
            {
                "change": "create",
                "topic": topic.name,
                "id": topic.id.hex(),
                "partitions": topic.partitions,
                "config": dict(config or {}),
            }
        )

    def delete_topic(self, name: str) -> None:
        """Append the deletion of the topic, which must exist, to the metadata log."""
        assert name in self._topics, name
        self._record({"change": "delete", "topic": name})

    def add_partitions(self, name: str, partitions: int) -> None:
        """Append a topic's new partition count to the metadata log, for CreatePartitions."""
        assert partitions > self._topics[name].partitions, (name, partitions)
        self._record({"change": "grow", "topic": name, "partitions": partitions})

    def name_cluster(self, cluster_id: str) -> None:
        """Append the cluster id to the metadata log of a new data directory; it is set once."""
        assert self._cluster_id is None, self._cluster_id
        self._record({"change": "name cluster", "cluster": cluster_id})

    def claim_producer_ids(self, count: int) -> range:
        """Return a block of fresh producer ids, claimed in the metadata log, for InitProducerId.

        Once the change is durable no start of the broker gives them out again.
        """
        first = self._next_producer_id
        self._record({"change": "claim producer ids", "next": first + count})
        return range(first, first + count)

    @property
    def scram_credentials(self) -> ScramCredentials:
        """A snapshot of all SCRAM credentials, which later changes do not alter."""
        if self._credentials_snapshot is None:
            self._credentials_snapshot = MappingProxyType(
                {
                    mechanism: MappingProxyType(dict(by_user))
                    for mechanism, by_user in self._credentials.items()
                }
            )
        return self._credentials_snapshot

    def alter_scram_credentials(
        self, wanted: Iterable[tuple[ScramMechanism, str, ScramCredential | None]]
    ) -> None:
        """Append credentials of users, or with None their deletion, to the metadata log.

        For AlterUserScramCredentials; what is deleted must exist.
        """
        self._record(*itertools.starmap(_credential_change, wanted))

    @property
    def acls(self) -> Acls:
        """A snapshot of all ACLs, which later changes do not alter."""
        # A cache as `topics` is. It is filled here, and not when a line is applied: a start reads
        # thousands of them.
        if self._acl_changes:
            changes, self._acl_changes = self._acl_changes.items(), {}
            self._acls = self._acls.changed(
                added=[acl for acl, is_added in changes if is_added],
                removed=[acl for acl, is_added in changes if not is_added],
            )
        return self._acls

    def add_acls(self, acls: Iterable[AclBinding]) -> None:
        """Append new ACLs, all or none, to the metadata log, for CreateAcls."""
        self._record({"change": "add acls", "acls": list(acls)})

    def remove_acls(self, acls: Iterable[AclBinding]) -> None:
        """Append the removal of ACLs, all or none, to the metadata log, for DeleteAcls."""
        self._record({"change": "remove acls", "acls": list(acls)})

    @property
    def end(self) -> LogEnd:
        """Return where the metadata log ends now, with what is valid there."""
        return LogEnd(self._size_bytes, self.scram_credentials, self.acls)

    def take_unsynced_paths(self) -> tuple[str, ...]:
        """Return the files and directories that the next flush must sync, each only once."""
        paths = tuple(self._unsynced)
        self._unsynced.clear()
        return paths

    @property
    def size_bytes(self) -> int:
        """The size of all lines."""
        return self._size_bytes

    def truncated(self, size_bytes: int) -> "MetadataLog":
        """Truncate the metadata log to `size_bytes`, and return the log replayed from its file.

        For a rollback. This object must not be used again.
        """
        self._disk.resize(PATH, size_bytes)
        return MetadataLog.open(self._disk)

    def _record(self, *changes: Change) -> None:
        """Append changes to the metadata log's file and apply them; after a DiskError neither.

        A crash may leave the first of them.
        """
        lines = b"".join(map(_line, changes))
        try:
            self._disk.append(PATH, self._size_bytes, lines)
        except DiskError:
            # Half a line that stays behind is cut off at the next start.
            with suppress(DiskError):
                self._disk.resize(PATH, self._size_bytes)
            raise
        # The first line creates the file, and a new name is durable only with its directory.
        self._unsynced |= {PATH: None} if self._size_bytes else {PATH: None, ROOT: None}
        self._size_bytes += len(lines)
        for change in changes:
            APPLY[change["change"]](self, change)

    def _apply_create(self, change: Change) -> None:
        """Apply the creation of a topic, in a replay of the metadata log or an append."""
        name = change["topic"]
        self._topics[name] = Topic(name, bytes.fromhex(change["id"]), change["partitions"])
        self._set_config(TOPIC, name, change["config"])
        self._snapshot = None

    def _apply_delete(self, change: Change) -> None:
        del self._topics[change["topic"]]
        self._set_config(TOPIC, change["topic"], {})
        self._snapshot = None

    def _apply_grow(self, change: Change) -> None:
        """Apply a topic's new partition count, in a replay of the metadata log or an append."""
        name = change["topic"]
        self._topics[name] = self._topics[name]._replace(partitions=change["partitions"])
        self._snapshot = None

    def _apply_configure(self, change: Change) -> None:
        self._set_config(change["kind"], change["name"], change["config"])

    def _set_config(self, kind: str, name: str, config: dict[str, str]) -> None:
        """Replace the own settings of a resource, in a replay of the metadata log or an append."""
        if config:
            self._configs[kind][name] = config
        else:
            self._configs[kind].pop(name, None)

    def _apply_name_cluster(self, change: Change) -> None:
        self._cluster_id = change["cluster"]

    def _apply_claim_producer_ids(self, change: Change) -> None:
        self._next_producer_id = change["next"]

    def _apply_set_scram_credential(self, change: Change) -> None:
        """Apply a user's credential, in a replay of the metadata log or an append."""
        self._credentials[ScramMechanism(change["mechanism"])][change["user"]] = ScramCredential(
            change["iterations"],
            *(bytes.fromhex(change[part]) for part in ("salt", "stored key", "server key")),
        )
        self._credentials_snapshot = None

    def _apply_delete_scram_credential(self, change: Change) -> None:
        del self._credentials[ScramMechanism(change["mechanism"])][change["user"]]
        self._credentials_snapshot = None

    def _apply_add_acls(self, change: Change) -> None:
        self._acl_changes |= dict.fromkeys(map(_acl, change["acls"]), True)

    def _apply_remove_acls(self, change: Change) -> None:
        self._acl_changes |= dict.fromkeys(map(_acl, change["acls"]), False)


def _line(change: Change) -> bytes:
    """Return the line of the metadata log's file that has this change."""
    text = json.dumps(change, separators=(",", ":")).encode()
    return b"%08x %b\n" % (crc32c(text), text)


def _credential_change(
    mechanism: ScramMechanism, user: str, credential: ScramCredential | None
) -> Change:
    """Return the change of a user's credential; with None its deletion."""
    if credential is None:
        return {"change": "delete scram credential", "mechanism": mechanism.value, "user": user}
    return {
        "change": "set scram credential",
        "mechanism": mechanism.value,
        "user": user,
        "iterations": credential.iterations,
        "salt": credential.salt.hex(),
        "stored key": credential.stored_key.hex(),
        "server key": credential.server_key.hex(),
    }


def _acl(fields: list[Any]) -> AclBinding:
    """Return an ACL as a line of the metadata log has it."""
    resource, name, pattern, principal, host, operation, permission = fields
    return AclBinding(
        *(ResourceType(resource), name, PatternType(pattern), principal, host),
        *(AclOperation(operation), AclPermission(permission)),
    )


# the name of a change in a line -> what it does
APPLY: dict[object, Callable[[MetadataLog, Change], None]] = {
    "create": MetadataLog._apply_create,
    "delete": MetadataLog._apply_delete,
    "grow": MetadataLog._apply_grow,
    "configure": MetadataLog._apply_configure,
    "name cluster": MetadataLog._apply_name_cluster,
    "claim producer ids": MetadataLog._apply_claim_producer_ids,
    "set scram credential": MetadataLog._apply_set_scram_credential,
    "delete scram credential": MetadataLog._apply_delete_scram_credential,
    "add acls": MetadataLog._apply_add_acls,
    "remove acls": MetadataLog._apply_remove_acls,
}


def _valid_lines(content: bytes) -> Iterator[tuple[int, int, Change]]:
    """Yield number, end position and change of the metadata log's lines, for its replay.

    Lines at the end that are torn or corrupt are left out, and cut off by the caller.

    Errors: Damaged if a line that cannot be read has readable lines behind it.
    """
    end, unreadable = 0, 0
    for number, line in enumerate(content.split(b"\n")[:-1], 1):
        end += len(line) + 1
        crc, _, text = line.partition(b" ")
        if crc != b"%08x" % crc32c(text):
            unreadable = unreadable or number
        # A crash tears only the end. Bytes that changed in the middle would silently lose a topic.
        elif unreadable:
            raise Damaged(f"{PATH}, line {unreadable}: cannot be read, though later lines can")
        else:
            yield number, end, json.loads(text)
