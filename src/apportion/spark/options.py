"""The options of the Spark source: declared, parsed and checked before the query starts.

Every error is one sentence that names the option and the remedy. Options have the names of Spark's
own Kafka source where they mean the same.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, NoReturn, TypedDict

from apportion.client.bootstrap import scheme_remedy_or_none
from apportion.member.assignors.interface import MeasuringAssignor
from apportion.member.assignors.strategy import local_assignors, strategy
from apportion.member.batch.plan import StartingOffsets
from apportion.member.settings import (
    CLIENT_ID,
    GROUP_PROTOCOL,
    HEARTBEAT_INTERVAL_MS,
    INSTANCE_ID,
    MAX_POLL_INTERVAL_MS,
    METADATA_MAX_AGE_MS,
    REQUEST_TIMEOUT_MS,
    SESSION_TIMEOUT_MS,
    heartbeat_fault_or_none,
)
from apportion.security.client_security import ClientSecurity
from apportion.settings import Setting, declared, fault_or_none, nearest_or_none, whole_number
from apportion.spark.foreign_options import REFUSED, REFUSED_SPELLING
from apportion.spark.security_options import (
    SECURITY_PREFIXES,
    KafkaSecurityOptions,
    query_security,
)
from apportion.spark.starting_offsets import starting_offsets

CLIENT_ID_PREFIX = "apportion-spark-"
PROTOCOL_OPTIONS = {  # protocol -> option that it alone has -> what the other one has instead
    "consumer": {
        "kafka.group.remote.assignor": "the members assign, by cooperative-sticky; drop the option",
        "kafka.group.local.assignors": "the members assign, by cooperative-sticky; drop the option",
    },
    "classic": {
        "kafka.session.timeout.ms": (
            "the broker decides: set group.consumer.session.timeout.ms there"
        ),
        "kafka.heartbeat.interval.ms": (
            "the broker decides: set group.consumer.heartbeat.interval.ms there"
        ),
        "kafka.metadata.max.age.ms": "the broker looks after the topics; drop the option",
    },
}
QueryOptions = TypedDict(
    "QueryOptions",
    {
        "kafka.bootstrap.servers": Annotated[
            str, Setting("Brokers as host:port, with commas between.", default_words="required")
        ],
        "kafka.group.id": Annotated[
            str,
            Setting(
                "The group that the query joins as a member. Spark's own source takes the name as "
                "a label only.",
                default_words="required",
            ),
        ],
        "subscribe": Annotated[
            str, Setting("Topics, with commas between.", default_words="required")
        ],
        "startingOffsets": Annotated[
            str,
            Setting(
                "Where a partition starts for which the group has no offset: earliest, latest, or "
                "JSON by topic and partition. A partition that appears later starts at its "
                "earliest record.",
                "latest",
            ),
        ],
        "maxOffsetsPerTrigger": Annotated[
            int | None,
            Setting(
                "The most offsets in one batch, shared by lag.", default_words="none", at_least=1
            ),
        ],
        "failOnDataLoss": Annotated[
            bool,
            Setting(
                "Whether deleted records or a deleted topic end the query; the error says which "
                "offsets.",
                True,
            ),
        ],
        "includeHeaders": Annotated[bool, Setting("Whether rows have the column headers.", False)],
        "kafka.group.instance.id": Annotated[str | None, INSTANCE_ID],
        "kafka.group.protocol": Annotated[
            Literal["consumer", "classic"],
            replace(
                GROUP_PROTOCOL,
                sentence="consumer (KIP-848), or classic for brokers that do not have it.",
            ),
        ],
        "kafka.group.remote.assignor": Annotated[
            str | None,
            Setting(
                "The broker's assignor: uniform, range, or one of your own.",
                default_words="the broker's",
            ).only_with("kafka.group.protocol=consumer"),
        ],
        "kafka.group.local.assignors": Annotated[
            str,
            Setting(
                "Assignors that the query can run, with commas between, the preferred first: "
                "sticky, lag-weighted and others, or module:Class; the group uses one that all "
                "members offer, or else the broker's. No Apache Kafka has them.",
                "",
                default_words="none",
            ).only_with("kafka.group.protocol=consumer"),
        ],
        "kafka.session.timeout.ms": Annotated[
            int, SESSION_TIMEOUT_MS.only_with("kafka.group.protocol=classic")
        ],
        "kafka.heartbeat.interval.ms": Annotated[
            int, HEARTBEAT_INTERVAL_MS.only_with("kafka.group.protocol=classic")
        ],
        "kafka.metadata.max.age.ms": Annotated[
            int, METADATA_MAX_AGE_MS.only_with("kafka.group.protocol=classic")
        ],
        "kafka.max.poll.interval.ms": Annotated[
            int,
            replace(
                MAX_POLL_INTERVAL_MS,
                sentence="The longest batch; a query that takes longer leaves the group until it "
                "is back, and loses its partitions meanwhile.",
            ),
        ],
        "kafka.client.id": Annotated[
            str,
            replace(
                CLIENT_ID, default=None, default_words=CLIENT_ID_PREFIX + "<group>-<host>-<pid>"
            ),
        ],
        "kafka.request.timeout.ms": Annotated[int, REQUEST_TIMEOUT_MS],
    },
    total=False,
)


class SparkOptions(QueryOptions, KafkaSecurityOptions):
    """The options as a query gives them: their names have dots, so no class body can have them."""


OPTIONS = declared(SparkOptions)
KNOWN_SPELLING = {name.lower(): name for name in OPTIONS}
"""The name of an option in lower case -> as the documentation writes it."""
BOOLEANS = {"true": True, "false": False}


class OptionError(ValueError):
    """An option is missing, unknown, wrong, or contradicts another one."""


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """Options of `spark.readStream.format("apportion")`, checked."""

    bootstrap: str
    security: ClientSecurity
    group: str
    topics: tuple[str, ...]
    instance_id: str | None
    classic: bool
    assignor: str | None
    local_assignors: tuple[str, ...]
    session_timeout_ms: int
    heartbeat_interval_ms: int
    metadata_max_age_ms: int
    client_id: str
    rebalance_timeout_ms: int
    request_timeout_ms: int
    starting: StartingOffsets
    max_offsets: int | None
    fail_on_data_loss: bool
    include_headers: bool

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> "SourceOptions":
        """Parse the options of a query, whose names may be in any case.

        Raises OptionError for the first fault. Unknown options come first: a name that is misspelt
        would also be reported as missing.
        """
        # Spark hands option names over in lower case.
        values = {name.lower(): value for name, value in options.items()}
        for name in values:
            if name in REFUSED_SPELLING:
                raise OptionError(
                    f"option {REFUSED_SPELLING[name]} cannot be used: "
                    f"{REFUSED[REFUSED_SPELLING[name]]}."
                )
            if name not in KNOWN_SPELLING and not name.startswith(SECURITY_PREFIXES):
                # As the user has written it, if Spark has kept that.
                _refuse_unknown(next(each for each in options if each.lower() == name))
        classic = _parse_protocol(values) == "classic"
        group = _parse_required(
            values, "kafka.group.id", "the name of the consumer group that this query joins"
        )
        topics = _parse_topics(
            _parse_required(values, "subscribe", "the topics to read, with commas between them")
        )
        bootstrap = _parse_required(
            values, "kafka.bootstrap.servers", "the brokers as host:port with commas between"
        )
        start = values.get("startingoffsets", OPTIONS["startingOffsets"].default)
        try:
            starting, security = starting_offsets(start, topics), query_security(values)
        except ValueError as error:
            # Without its cause, which may show a secret.
            raise OptionError(f"option {error}.") from None
        if classic:
            names = (
                "kafka.heartbeat.interval.ms",
                "kafka.session.timeout.ms",
                "kafka.max.poll.interval.ms",
            )
            fault = heartbeat_fault_or_none(*((name, _parsed(values, name)) for name in names))
            if fault is not None:
                raise OptionError(f"option {fault}.")
        return cls(
            bootstrap=_parse_bootstrap(bootstrap),
            security=security,
            group=group,
            topics=topics,
            instance_id=values.get("kafka.group.instance.id") or None,
            classic=classic,
            assignor=values.get("kafka.group.remote.assignor") or None,
            local_assignors=_parse_local_assignors(values),
            session_timeout_ms=_parsed(values, "kafka.session.timeout.ms"),
            heartbeat_interval_ms=_parsed(values, "kafka.heartbeat.interval.ms"),
            metadata_max_age_ms=_parsed(values, "kafka.metadata.max.age.ms"),
            client_id=values.get("kafka.client.id") or CLIENT_ID_PREFIX + group,
            rebalance_timeout_ms=_parsed(values, "kafka.max.poll.interval.ms"),
            request_timeout_ms=_parsed(values, "kafka.request.timeout.ms"),
            starting=starting,
            max_offsets=_parsed(values, "maxOffsetsPerTrigger"),
            fail_on_data_loss=_parsed(values, "failOnDataLoss"),
            include_headers=_parsed(values, "includeHeaders"),
        )

    def membership(self) -> dict[str, Any]:
        """Return the keyword arguments of the query's `GroupMembership`."""
        settings: dict[str, Any] = {
            "instance_id": self.instance_id,
            "rebalance_timeout_ms": self.rebalance_timeout_ms,
            "poll_limit_ms": self.rebalance_timeout_ms,
        }
        if not self.classic:
            return settings | {
                "server_assignor": self.assignor,
                # New objects for each membership: an assignor may keep state of its member.
                "assignors": local_assignors(self.local_assignors),
            }
        return settings | {
            "protocol": "classic",
            "assignors": strategy("cooperative-sticky"),
            "session_timeout_ms": self.session_timeout_ms,
            "heartbeat_interval_ms": self.heartbeat_interval_ms,
            "metadata_interval_ms": self.metadata_max_age_ms,
        }


def _refuse_unknown(name: str) -> NoReturn:
    """Raise OptionError for an unknown option, with the nearest name that is known."""
    nearest = nearest_or_none(name.lower(), KNOWN_SPELLING)
    hint = (
        f"did you mean {KNOWN_SPELLING[nearest]}?"
        if nearest
        else f"known are {', '.join(sorted(KNOWN_SPELLING.values()))}."
    )
    # The message shows the name as Spark gives it: a person who wrote startingOffset should not
    # take the missing capital letter for the mistake.
    case_hint = (
        " (Spark hands names over in lower case)"
        if nearest and name != KNOWN_SPELLING[nearest] and name.islower()
        else ""
    )
    raise OptionError(f"option {name} is unknown{case_hint}: {hint}")


def _parse_required(options: Mapping[str, str], name: str, meaning: str) -> str:
    """Return an option that the source needs; raise OptionError if it is missing or empty."""
    value = (options.get(name) or "").strip()
    if not value:
        raise OptionError(
            f'option {name} is missing: give {meaning}, as in .option("{name}", "...").'
        )
    return value


def _parse_protocol(options: Mapping[str, str]) -> str:
    """Return kafka.group.protocol; raise OptionError for options of the other protocol."""
    setting = OPTIONS["kafka.group.protocol"]
    protocol = options.get(setting.name, str(setting.default)).strip().lower()
    if fault_or_none(setting, protocol) is not None:
        raise OptionError(f"option {setting.name} is {protocol!r}: give {setting.sentence}")
    for other, own_options in PROTOCOL_OPTIONS.items():
        for name, remedy in own_options.items():
            if other != protocol and name in options:
                raise OptionError(
                    f"option {name} is for kafka.group.protocol={other}: with {protocol} {remedy}."
                )
    return protocol


def _parse_local_assignors(options: Mapping[str, str]) -> tuple[str, ...]:
    """Return kafka.group.local.assignors, loaded once; raise OptionError for a fault of one."""
    value = options.get("kafka.group.local.assignors", "")
    names = tuple(name for each in value.split(",") if (name := each.strip()))
    if names and options.get("kafka.group.remote.assignor"):
        raise OptionError(
            "options kafka.group.remote.assignor and kafka.group.local.assignors exclude each "
            "other: the broker assigns, or a member does; leave one out."
        )
    try:
        assignors = local_assignors(names)
    except ValueError as error:
        raise OptionError(f"option kafka.group.local.assignors: {error}.") from error
    for assignor in assignors:
        if isinstance(assignor, MeasuringAssignor):
            raise OptionError(
                f"option kafka.group.local.assignors: {assignor.name} measures what a consumer "
                "reads, and a query's executors read; use lag-weighted."
            )
    return names


def _parse_bootstrap(value: str) -> str:
    """Return `kafka.bootstrap.servers` if each address is host:port, else raise OptionError."""
    for address in value.split(","):
        if (remedy := scheme_remedy_or_none(address.strip())) is not None:
            raise OptionError(
                f"option kafka.bootstrap.servers holds {address.strip()!r}, which has a scheme: "
                f"{remedy}."
            )
        host, colon, port = address.strip().rpartition(":")
        if not host or not colon or not port.isdigit() or not 0 < int(port) < 65536:
            raise OptionError(
                f"option kafka.bootstrap.servers holds {address.strip()!r}: write each "
                "broker as host:port."
            )
    return value


def _parse_topics(value: str) -> tuple[str, ...]:
    """Return the topics of `subscribe`, each once; raise OptionError for an empty name."""
    names = [name.strip() for name in value.split(",")]
    if not all(names):
        raise OptionError(
            f"option subscribe holds an empty name in {value!r}: write topics with one "
            "comma between them."
        )
    return tuple(dict.fromkeys(names))


def _parsed(options: Mapping[str, str], name: str) -> Any:
    """Return the value of an option that is a number or a boolean, or its default."""
    setting, text = OPTIONS[name], options.get(name.lower())
    if text is None:
        return setting.default
    word = text.strip()
    if setting.type is bool:
        if word.lower() not in BOOLEANS:
            raise OptionError(f"option {name} is {text!r}: give true or false.")
        return BOOLEANS[word.lower()]
    if not word.isdecimal() or fault_or_none(setting, int(word)) is not None:
        raise OptionError(f"option {name} is {text!r}: give {whole_number(setting)}.")
    return int(word)
