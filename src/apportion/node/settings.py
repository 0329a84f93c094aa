"""The settings of one broker, under Kafka's own names; those of its groups are a part of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from apportion.assign.custom import CustomAssignor
from apportion.coord.config import GroupSettings, check_bounds, dotted
from apportion.node.authorizer_settings import check_authorizer
from apportion.node.listeners import Listener, host_and_port, listeners_of
from apportion.node.security_settings import (
    SecurityByListener,
    SecuritySettings,
    is_security_name,
    security_by_listener,
    unknown_security_setting_or_none,
)
from apportion.node.setting_values import largest, parsed, written
from apportion.settings import MAX_INT32, MAX_INT64, Setting, declared, nearest_or_none
from apportion.store.settings import LogSettings

RETENTIONS = ("log_retention_hours", "log_retention_minutes", "log_retention_ms")
"""Of those that are set, the last one counts; a negative number stands for ever."""
NEVER_ZERO = (*RETENTIONS, "connections_max_idle_ms")
"""With 0, each check would delete all records, or close all connections."""
TIMESTAMP_TYPES = ("CreateTime", "LogAppendTime")
HOUR_MS, MINUTE_MS = 3_600_000, 60_000


class SettingRefused(ValueError):
    """A setting that is unknown or has a wrong value; the text is one sentence for the user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """The settings of one broker. A field is Kafka's setting of that name, with underscores."""

    node_id: Annotated[int, Setting("The id of this broker.")] = 1
    listeners: Annotated[
        str,
        Setting(
            "The addresses to bind, NAME://HOST:PORT for each listener, with commas between; one "
            "HOST:PORT is the listener PLAINTEXT. Port 0 picks a free one."
        ),
    ] = "PLAINTEXT://127.0.0.1:9092"
    advertised_listeners: Annotated[
        str,
        Setting(
            "The address that the clients of each listener are told, NAME://HOST:PORT.",
            default_words="the address that was bound",
        ),
    ] = ""
    listener_security_protocol_map: Annotated[
        str,
        Setting("The security protocol of each listener, NAME:PROTOCOL with commas between."),
    ] = "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL"
    num_partitions: Annotated[
        int, Setting("Partitions of a topic that is created without a number.", at_least=1)
    ] = 1
    auto_create_topics_enable: Annotated[
        bool,
        Setting(
            "Whether a topic is created when a client first names it in a request that allows "
            "this, as producers do; apportion's consumers and its Spark source do not."
        ),
    ] = True
    delete_topic_enable: Annotated[bool, Setting("Whether topics may be deleted.")] = True
    message_max_bytes: Annotated[
        int, Setting("The largest record batch.", at_least=1, is_dynamic=True)
    ] = 1_048_588
    min_insync_replicas: Annotated[
        int,
        Setting(
            "No effect: there is one broker. It may be altered for all brokers alone.",
            at_least=1,
            is_dynamic=True,
        ),
    ] = 1
    log_segment_bytes: Annotated[
        int, Setting("The size at which a log begins a new segment.", at_least=1, is_dynamic=True)
    ] = LogSettings().segment_bytes
    log_roll_hours: Annotated[
        int, Setting("The age at which a log begins a new segment, in hours.", at_least=1)
    ] = 168
    log_roll_ms: Annotated[
        int | None,
        Setting(
            "The same in milliseconds.", at_least=1, default_words="log.roll.hours", is_dynamic=True
        ),
    ] = None
    # Kafka keeps records for a week. Here nothing expires unless somebody configures it (decision
    # 43).
    log_retention_hours: Annotated[
        int, Setting("How long records are kept, in hours; -1 for ever.")
    ] = -1
    log_retention_minutes: Annotated[
        int | None, Setting("The same in minutes.", default_words="log.retention.hours")
    ] = None
    log_retention_ms: Annotated[
        int | None,
        Setting(
            "The same in milliseconds.", default_words="log.retention.minutes", is_dynamic=True
        ),
    ] = None
    log_retention_bytes: Annotated[
        int, Setting("How many bytes of a partition are kept; -1 for all.", is_dynamic=True)
    ] = -1
    log_retention_check_interval_ms: Annotated[
        int, Setting("The time between two looks for segments that may be deleted.", at_least=1)
    ] = 300_000
    log_message_timestamp_type: Annotated[
        str,
        Setting(
            "CreateTime keeps the producer's timestamp, LogAppendTime sets the broker's.",
            choices=TIMESTAMP_TYPES,
            is_dynamic=True,
        ),
    ] = "CreateTime"
    log_message_timestamp_before_max_ms: Annotated[
        int,
        Setting(
            "How far a record's timestamp may lie before the broker's clock.",
            at_least=0,
            is_dynamic=True,
        ),
    ] = MAX_INT64
    log_message_timestamp_after_max_ms: Annotated[
        int,
        Setting(
            "How far a record's timestamp may lie after the broker's clock.",
            at_least=0,
            is_dynamic=True,
        ),
    ] = 3_600_000
    offsets_topic_num_partitions: Annotated[
        int,
        Setting("Partitions of __consumer_offsets: one coordinator shard for each.", at_least=1),
    ] = 50
    # Kafka's segments have 100 MiB. A cleaning remembers the keys of one segment at the least
    # (decision 26), so small ones save memory.
    offsets_topic_segment_bytes: Annotated[
        int, Setting("The segment size of __consumer_offsets.", at_least=1)
    ] = 16_777_216
    fetch_max_bytes: Annotated[
        int, Setting("The most bytes in one Fetch response.", at_least=1)
    ] = 57_671_680
    producer_id_expiration_ms: Annotated[
        int,
        Setting(
            "How long a producer's sequence numbers are remembered after its last batch.",
            at_least=1,
            is_dynamic=True,
        ),
    ] = 86_400_000
    socket_request_max_bytes: Annotated[int, Setting("The largest request.", at_least=1)] = (
        104_857_600
    )
    max_connections: Annotated[
        int,
        Setting(
            "The most connections at one time; fewer where the process may open few files.",
            at_least=1,
            is_dynamic=True,
        ),
    ] = MAX_INT32
    connections_max_idle_ms: Annotated[
        int,
        Setting(
            "How long nothing may come or go on a connection before it is closed, also while a "
            "request waits for its answer; up to twice as long if a response is not read; -1 for "
            "ever.",
        ),
    ] = 600_000
    apportion_connection_max_inflight_requests: Annotated[
        int,
        Setting(
            "Requests of one connection that may share a flush: Produce, or OffsetCommit.",
            at_least=1,
        ),
    ] = 1_024
    apportion_connection_max_inflight_bytes: Annotated[
        int,
        Setting(
            "Bytes of such requests; a single request may be larger, up to "
            "socket.request.max.bytes.",
            at_least=1,
        ),
    ] = 33_554_432
    apportion_authentication_timeout_ms: Annotated[
        int,
        Setting(
            "How long a connection to a listener with TLS or SASL may take until its client has "
            "authenticated.",
            at_least=1,
        ),
    ] = 10_000
    apportion_metrics_listen: Annotated[
        str,
        Setting("The address at which metrics are read over HTTP, HOST:PORT.", default_words="off"),
    ] = ""
    authorizer_class_name: Annotated[
        str,
        Setting(
            "What decides by ACLs who may do what: StandardAuthorizer, as Kafka's is called, with "
            "or without its package.",
            default_words="none: everybody may do everything",
        ),
    ] = ""
    super_users: Annotated[
        str,
        Setting(
            "Principals that may do everything, such as User:alice;User:bob.",
            default_words="nobody",
        ),
    ] = ""
    allow_everyone_if_no_acl_found: Annotated[
        bool, Setting("Whether everybody may use a resource that no ACL is about.")
    ] = False
    group: GroupSettings = field(default_factory=GroupSettings)
    security: SecurityByListener = field(default_factory=SecurityByListener)

    @classmethod
    def of(
        cls, values: Mapping[str, Any], custom_assignors: Mapping[str, CustomAssignor] | None = None
    ) -> "BrokerSettings":
        """Return the broker's settings with `values` in place of defaults.

        A name may be written with dots or underscores; settings of groups and of security are among
        them.
        custom_assignors: those that `group.consumer.assignors` names, by name.
        Errors: SettingRefused for an unknown name or a value of the wrong kind.
        """
        broker_fields, group_fields = declared(BrokerSettings), declared(GroupSettings)
        broker_values: dict[str, Any] = {}
        group_values: dict[str, Any] = {}
        security_values: dict[str, Any] = {}
        try:
            for name, value in values.items():
                key = name.replace(".", "_")
                if is_security_name(name):
                    security_values[name] = value
                elif key in broker_fields:
                    broker_values[key] = parsed(dotted(name), value, broker_fields[key])
                elif key in group_fields:
                    group_values[key] = parsed(dotted(name), value, group_fields[key])
                else:
                    known = [*broker_fields, *group_fields, *declared(SecuritySettings)]
                    raise SettingRefused(_unknown(name, known))
            group = GroupSettings(**group_values, custom_assignors=custom_assignors or {})
            security = security_by_listener(security_values)
            settings = cls(group=group, security=security, **broker_values)
            settings._check()
            settings._check_start()
        except ValueError as error:
            raise SettingRefused(str(error)) from None
        return settings

    def altered(self, values: Mapping[str, str]) -> "BrokerSettings":
        """Return these settings with other values for some that may be altered at run time.

        values: texts by the names with dots.
        Errors: SettingRefused for a name that is unknown or may not be altered, and a wrong value.
        """
        broker_values: dict[str, Any] = {}
        group_values: dict[str, Any] = {}
        try:
            for name, value in values.items():
                setting = check_alterable(name)
                owner = group_values if setting.name in declared(GroupSettings) else broker_values
                read = parsed(name, value.strip(), setting)
                if read is None or (type(read) is int and abs(read) > largest(setting)):
                    raise SettingRefused(f"{name} must be a whole number, not {value!r}.")
                owner[setting.name] = read
            group = replace(self.group, **group_values)
            settings = replace(self, group=group, **broker_values)
            settings._check()
        except ValueError as error:
            raise SettingRefused(str(error)) from None
        return settings

    def named(self) -> dict[str, str]:
        """Return every setting by Kafka's name, its value as Kafka writes it, for DescribeConfigs.

        The value "" leaves the setting to another one. A secret is hidden.
        """
        values = {name: getattr(self, name) for name in declared(BrokerSettings)} | {
            each.name: self.group.value_of(each.name) for each in declared(GroupSettings).values()
        }
        texts = {dotted(name): written(value) for name, value in values.items()}
        return dict(sorted([*texts.items(), *self.security.named()]))

    def listening(self) -> tuple[Listener, ...]:
        """Return the listeners, in the order of `listeners`. Errors: ValueError."""
        return listeners_of(
            self.listeners,
            self.advertised_listeners,
            self.listener_security_protocol_map,
            self.security,
        )

    @property
    def retention_ms(self) -> int:
        """The broker's `retention.ms` for topics that have none of their own; -1 for ever.

        As in Kafka, log.retention.ms goes before minutes, and minutes before hours.
        """
        # Negative numbers all stand for ever, as in Kafka.
        if self.log_retention_ms is not None:
            return max(self.log_retention_ms, -1)
        if self.log_retention_minutes is not None:
            return max(self.log_retention_minutes * MINUTE_MS, -1)
        return max(self.log_retention_hours * HOUR_MS, -1)

    @property
    def roll_ms(self) -> int:
        """The `segment.ms` of topics that have none of their own."""
        return self.log_roll_hours * HOUR_MS if self.log_roll_ms is None else self.log_roll_ms

    def _check(self) -> None:
        """Refuse broker settings that are out of bounds. Errors: ValueError."""
        check_bounds(BrokerSettings, self)
        for name in NEVER_ZERO:
            if getattr(self, name) == 0:
                raise SettingRefused(f"{dotted(name)} must be at least 1, or -1 for ever, not 0.")
        if self.log_message_timestamp_type not in TIMESTAMP_TYPES:
            types = " or ".join(TIMESTAMP_TYPES)
            raise SettingRefused(
                f"log.message.timestamp.type must be {types}, not "
                f"{self.log_message_timestamp_type!r}."
            )

    def _check_start(self) -> None:
        """Refuse wrong values of settings that only a start reads.

        Those of listeners, their security, the authorizer, and the address of metrics.
        Errors: ValueError.
        """
        self.listening()
        check_authorizer(
            self.authorizer_class_name,
            self.super_users,
            allows_without_acls=self.allow_everyone_if_no_acl_found,
        )
        if self.apportion_metrics_listen:
            host_and_port(self.apportion_metrics_listen, "apportion.metrics.listen")


def broker_settings_by_name() -> dict[str, Setting]:
    """Return the declaration of every broker setting by its name with dots.

    Those of groups and of security are there, but none of one listener alone.
    """
    owners = (BrokerSettings, GroupSettings, SecuritySettings)
    return {dotted(name): each for owner in owners for name, each in declared(owner).items()}


def check_alterable(name: str) -> Setting:
    """Return the declaration of a broker setting that may be altered at run time.

    Errors: SettingRefused for an unknown one, and one that only a start of the broker reads.
    """
    by_name = broker_settings_by_name()
    if name not in by_name and not is_security_name(name):
        raise SettingRefused(_unknown(name, [setting.name for setting in by_name.values()]))
    if is_security_name(name) or not by_name[name].is_dynamic:
        raise SettingRefused(
            f"{name} cannot be altered while the broker runs: set it when the broker starts."
        )
    return by_name[name]


def _unknown(name: str, known: list[str]) -> str:
    """Return the sentence for an unknown broker setting, with the nearest name in its form."""
    if dotted(name) in ("log.dir", "log.dirs"):
        return f"{dotted(name)} is given as --data-dir."
    if (why := unknown_security_setting_or_none(name)) is not None:
        return why
    near = nearest_or_none(name.replace(".", "_"), known)
    if near is None:
        return f"there is no setting {name!r}."
    # As it was written: a keyword argument of EmbeddedBroker cannot have dots.
    return f"there is no setting {name!r}; did you mean {dotted(near) if '.' in name else near}?"
