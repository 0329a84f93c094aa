"""Metadata that a broker is given at its start: SCRAM credentials of users, and ACLs.

kafka-storage.sh writes such when it formats the directory of a Kafka. Here it is given at any
start, and is durable before the first client connects.
"""

from typing import NamedTuple

from apportion.machine import Note
from apportion.node.topics import TopicService
from apportion.readable import readable
from apportion.security.acls import AclBinding
from apportion.security.scram_credentials import ScramCredential, ScramMechanism
from apportion.store.metadata_log import MetadataLog


class UserCredential(NamedTuple):
    """A credential of a user."""

    mechanism: ScramMechanism
    user: str
    credential: ScramCredential


class BootstrapMetadata(NamedTuple):
    """The metadata of one start.

    credentials: for users without one of that mechanism; with `replaces` for all of them.
    """

    credentials: tuple[UserCredential, ...] = ()
    acls: tuple[AclBinding, ...] = ()
    replaces: bool = False


NOTHING = BootstrapMetadata()


def record_bootstrap(topic_service: TopicService, given: BootstrapMetadata) -> list[Note]:
    """Have the metadata log record what it does not have yet; return lines for the rest.

    A user keeps the credential that he has: somebody may have altered it since an earlier start,
    and the command line of that start would bring the old password back.
    """
    log, notes, new = topic_service.metadata_log, [], []
    for each in given.credentials:
        before = log.scram_credentials[each.mechanism].get(each.user)
        if before is None or given.replaces:
            new.append(each)
        else:
            notes.append(
                Note(
                    "info",
                    f"user {readable(each.user)} has a credential of {each.mechanism.value} "
                    "already, which stays as it is",
                )
            )
    acls = [acl for acl in dict.fromkeys(given.acls) if acl not in log.acls]

    def record(log: MetadataLog) -> None:
        if new:
            log.alter_scram_credentials(new)
        if acls:
            log.add_acls(acls)

    if new or acls:
        topic_service.record(record)
    return notes
