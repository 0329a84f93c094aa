"""The errors: Kafka's error codes, a refusal that carries one, and undecodable bytes.

`Code` is Kafka's numbering, with sentences of our own, and one code that no response has: for TLS,
whose failures Kafka has no number for. `Refused` is for a peer that asked for
something that it may not have; it is caught once, where a machine takes its requests. `DecodeError`
is for bytes that are no message: the owner of the connection closes it.
"""

import sys
from enum import IntEnum
from types import TracebackType

__all__ = ["Code", "DecodeError", "EncodeError", "Refused", "Unanswerable"]

OWN_MODULE = __name__.partition(".")[0]
RETRIABLE = True
"""Marks a code as Kafka's RetriableException does: the same request may succeed later."""


class Code(IntEnum):
    """An error code as it stands in a response; 0 is no error.

    sentence: what happened, in plain words. retriable: True where sending the request again later
    may succeed.
    """

    sentence: str
    retriable: bool

    def __new__(cls, value: int, sentence: str = "", retriable: bool = False) -> "Code":
        """Create a code from its number, its sentence and whether it is retriable."""
        code = int.__new__(cls, value)
        code._value_ = value
        code.sentence = sentence
        code.retriable = retriable
        return code

    @classmethod
    def of(cls, value: int) -> "Code":
        """Return the code of that number; UNKNOWN_SERVER_ERROR if there is none, as in Java."""
        code = cls._value2member_map_.get(value)
        if not isinstance(code, cls) or code is cls.SSL_HANDSHAKE_FAILED:
            return cls.UNKNOWN_SERVER_ERROR
        return code

    # A client's own: no broker sends it. The number is that of librdkafka for the same.
    SSL_HANDSHAKE_FAILED = -181, "Client and broker did not agree on a TLS connection."
    UNKNOWN_SERVER_ERROR = -1, "The broker failed in a way that it did not foresee."
    NONE = 0, "There is no error."
    OFFSET_OUT_OF_RANGE = 1, "The partition holds no record at that offset."
    CORRUPT_MESSAGE = (
        2,
        "A record batch is damaged: its checksum, size or layout does not fit.",
        RETRIABLE,
    )
    UNKNOWN_TOPIC_OR_PARTITION = 3, "This broker has no such topic or partition.", RETRIABLE
    INVALID_FETCH_SIZE = 4, "The number of bytes to fetch makes no sense."
    LEADER_NOT_AVAILABLE = 5, "The partition has no leader at the moment.", RETRIABLE
    NOT_LEADER_OR_FOLLOWER = (
        6,
        "Another broker leads or follows this partition, not this one.",
        RETRIABLE,
    )
    REQUEST_TIMED_OUT = 7, "The time allowed for the request ran out.", RETRIABLE
    BROKER_NOT_AVAILABLE = 8, "The broker cannot be reached."
    REPLICA_NOT_AVAILABLE = 9, "No replica of the partition can serve this now.", RETRIABLE
    MESSAGE_TOO_LARGE = 10, "A message exceeds the size that the broker accepts."
    STALE_CONTROLLER_EPOCH = 11, "The request comes from a controller that has been replaced."
    OFFSET_METADATA_TOO_LARGE = 12, "The note stored beside a committed offset is too long."
    NETWORK_EXCEPTION = 13, "The connection broke before the answer came.", RETRIABLE
    COORDINATOR_LOAD_IN_PROGRESS = 14, "The coordinator is still reading its log.", RETRIABLE
    COORDINATOR_NOT_AVAILABLE = 15, "No coordinator can be reached for this group now.", RETRIABLE
    NOT_COORDINATOR = 16, "This broker does not coordinate the group now.", RETRIABLE
    INVALID_TOPIC_EXCEPTION = 17, "That is no valid topic for this operation."
    RECORD_LIST_TOO_LARGE = 18, "The batch exceeds the segment size of the log."
    NOT_ENOUGH_REPLICAS = 19, "Too few replicas are in sync to accept the write.", RETRIABLE
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = (
        20,
        "The records were written, but too few replicas are in sync.",
        RETRIABLE,
    )
    INVALID_REQUIRED_ACKS = 21, "The number of acknowledgements must be -1, 0 or 1."
    ILLEGAL_GENERATION = (
        22,
        "The member speaks of a generation that is not the group's current one.",
    )
    INCONSISTENT_GROUP_PROTOCOL = (
        23,
        "The member supports none of the protocols that the rest of the group does.",
    )
    INVALID_GROUP_ID = 24, "That cannot be the id of a group."
    UNKNOWN_MEMBER_ID = 25, "The group has no member of that id."
    INVALID_SESSION_TIMEOUT = 26, "The session timeout is outside the range that the broker allows."
    REBALANCE_IN_PROGRESS = 27, "The group is rebalancing, so the member has to join again."
    INVALID_COMMIT_OFFSET_SIZE = 28, "The offsets to commit are too many to be stored at once."
    TOPIC_AUTHORIZATION_FAILED = 29, "The client is not allowed to use this topic."
    GROUP_AUTHORIZATION_FAILED = 30, "The client is not allowed to use this group."
    CLUSTER_AUTHORIZATION_FAILED = 31, "The client is not allowed to do this to the cluster."
    INVALID_TIMESTAMP = 32, "The timestamp of a record is outside the accepted range."
    UNSUPPORTED_SASL_MECHANISM = 33, "The broker does not offer this SASL mechanism."
    ILLEGAL_SASL_STATE = 34, "The request does not fit the present state of the SASL exchange."
    UNSUPPORTED_VERSION = 35, "The broker does not speak this version of the API."
    TOPIC_ALREADY_EXISTS = 36, "A topic of that name exists already."
    INVALID_PARTITIONS = 37, "The number of partitions is not possible."
    INVALID_REPLICATION_FACTOR = (
        38,
        "The replication factor is below 1 or above the number of brokers.",
    )
    INVALID_REPLICA_ASSIGNMENT = 39, "The wished placement of replicas is not possible."
    INVALID_CONFIG = 40, "A configuration value is not valid."
    NOT_CONTROLLER = 41, "Another node is the controller of this cluster.", RETRIABLE
    INVALID_REQUEST = 42, "The request contradicts itself or the protocol."
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43, "The format of the stored messages does not allow this."
    POLICY_VIOLATION = 44, "The request breaks a policy of the cluster."
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, "The producer skipped a sequence number."
    DUPLICATE_SEQUENCE_NUMBER = 46, "The producer repeated a sequence number that is long past."
    INVALID_PRODUCER_EPOCH = 47, "The producer's epoch is older than the one the broker knows."
    INVALID_TXN_STATE = 48, "The transaction is in a state that does not allow this."
    INVALID_PRODUCER_ID_MAPPING = 49, "The producer id is not the one of this transactional id."
    INVALID_TRANSACTION_TIMEOUT = 50, "The transaction timeout is longer than the broker allows."
    CONCURRENT_TRANSACTIONS = (
        51,
        "An earlier transaction of this producer is still ending.",
        RETRIABLE,
    )
    TRANSACTION_COORDINATOR_FENCED = (
        52,
        "The transaction coordinator has been replaced by a newer one.",
    )
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = (
        53,
        "The client is not allowed to use this transactional id.",
    )
    SECURITY_DISABLED = 54, "Security features are switched off on this broker."
    OPERATION_NOT_ATTEMPTED = (
        55,
        "The operation was not tried because another part of the request failed first.",
    )
    KAFKA_STORAGE_ERROR = 56, "The broker's disk refused to read or write.", RETRIABLE
    LOG_DIR_NOT_FOUND = 57, "The broker has no such log directory."
    SASL_AUTHENTICATION_FAILED = 58, "The broker did not accept the credentials."
    UNKNOWN_PRODUCER_ID = 59, "The broker no longer remembers this producer id."
    REASSIGNMENT_IN_PROGRESS = 60, "The partition is already being moved."
    DELEGATION_TOKEN_AUTH_DISABLED = 61, "Delegation tokens are switched off."
    DELEGATION_TOKEN_NOT_FOUND = 62, "The broker knows no such delegation token."
    DELEGATION_TOKEN_OWNER_MISMATCH = 63, "The delegation token belongs to somebody else."
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = (
        64,
        "Delegation tokens cannot be asked for over this connection.",
    )
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = (
        65,
        "The client is not allowed to use this delegation token.",
    )
    DELEGATION_TOKEN_EXPIRED = 66, "The delegation token is past its end."
    INVALID_PRINCIPAL_TYPE = 67, "This type of principal is not supported."
    NON_EMPTY_GROUP = 68, "The group still has members."
    GROUP_ID_NOT_FOUND = 69, "There is no group of that id."
    FETCH_SESSION_ID_NOT_FOUND = 70, "The broker has no such fetch session.", RETRIABLE
    INVALID_FETCH_SESSION_EPOCH = (
        71,
        "The epoch of the fetch session is not the expected one.",
        RETRIABLE,
    )
    LISTENER_NOT_FOUND = (
        72,
        "The leader has no listener of the name that this request came in by.",
        RETRIABLE,
    )
    TOPIC_DELETION_DISABLED = 73, "Deleting topics is switched off."
    FENCED_LEADER_EPOCH = 74, "The client's leader epoch is older than the broker's.", RETRIABLE
    UNKNOWN_LEADER_EPOCH = 75, "The client's leader epoch is newer than the broker's.", RETRIABLE
    UNSUPPORTED_COMPRESSION_TYPE = (
        76,
        "This version of the request does not allow that compression.",
    )
    STALE_BROKER_EPOCH = 77, "The broker has registered again since this epoch."
    OFFSET_NOT_AVAILABLE = 78, "The new leader does not know its high watermark yet.", RETRIABLE
    MEMBER_ID_REQUIRED = 79, "The member has to join again with the id that this answer gives it."
    PREFERRED_LEADER_NOT_AVAILABLE = 80, "The preferred leader cannot take over now.", RETRIABLE
    GROUP_MAX_SIZE_REACHED = 81, "The group has as many members as it may have."
    FENCED_INSTANCE_ID = 82, "Another member has taken this group instance id."
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, "No replica that could lead is available.", RETRIABLE
    ELECTION_NOT_NEEDED = 84, "The partition has the wished leader already.", RETRIABLE
    NO_REASSIGNMENT_IN_PROGRESS = 85, "The partition is not being moved."
    GROUP_SUBSCRIBED_TO_TOPIC = 86, "The group still subscribes to this topic, so its offsets stay."
    INVALID_RECORD = 87, "The broker does not accept one of the records."
    UNSTABLE_OFFSET_COMMIT = (
        88,
        "A transaction that is not over yet may still change the committed offset.",
        RETRIABLE,
    )
    THROTTLING_QUOTA_EXCEEDED = 89, "The client has used up its quota for now.", RETRIABLE
    PRODUCER_FENCED = 90, "A newer producer has taken over this transactional id."
    RESOURCE_NOT_FOUND = 91, "The request names something that does not exist."
    DUPLICATE_RESOURCE = 92, "The request names the same thing twice."
    UNACCEPTABLE_CREDENTIAL = 93, "The credential does not satisfy the requirements."
    INCONSISTENT_VOTER_SET = 94, "Sender and receiver disagree about who votes."
    INVALID_UPDATE_VERSION = 95, "The version of the update is not valid."
    FEATURE_UPDATE_FAILED = 96, "The cluster could not change its features."
    PRINCIPAL_DESERIALIZATION_FAILURE = 97, "The principal of a forwarded request cannot be read."
    SNAPSHOT_NOT_FOUND = 98, "There is no such snapshot."
    POSITION_OUT_OF_RANGE = 99, "The position lies outside the snapshot."
    UNKNOWN_TOPIC_ID = 100, "This broker has no topic of that id.", RETRIABLE
    DUPLICATE_BROKER_REGISTRATION = 101, "A broker of that id is registered already."
    BROKER_ID_NOT_REGISTERED = 102, "No broker of that id is registered."
    INCONSISTENT_TOPIC_ID = (
        103,
        "The topic's id is not the one that the log was written under.",
        RETRIABLE,
    )
    INCONSISTENT_CLUSTER_ID = 104, "The request is meant for another cluster."
    TRANSACTIONAL_ID_NOT_FOUND = 105, "There is no such transactional id."
    FETCH_SESSION_TOPIC_ID_ERROR = (
        106,
        "A fetch session cannot mix topic names and topic ids.",
        RETRIABLE,
    )
    INELIGIBLE_REPLICA = 107, "That replica may not join those in sync now."
    NEW_LEADER_ELECTED = 108, "The change has made another replica the leader."
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, "The offset now lives in remote storage."
    FENCED_MEMBER_EPOCH = (
        110,
        "The group has fenced this epoch of the member, so it has to join again from epoch 0.",
    )
    UNRELEASED_INSTANCE_ID = 111, "Another live member still holds this group instance id."
    UNSUPPORTED_ASSIGNOR = 112, "The broker does not have the assignor that the member asks for."
    STALE_MEMBER_EPOCH = (
        113,
        "The member's epoch is behind, so it has to heartbeat before it tries again.",
    )
    MISMATCHED_ENDPOINT_TYPE = 114, "The request went to the wrong kind of node."
    UNSUPPORTED_ENDPOINT_TYPE = 115, "Nodes of this kind cannot be described."
    UNKNOWN_CONTROLLER_ID = 116, "No controller of that id is known."
    UNKNOWN_SUBSCRIPTION_ID = 117, "The client sent metrics for a subscription that is out of date."
    TELEMETRY_TOO_LARGE = 118, "The client sent more metrics at once than are accepted."
    INVALID_REGISTRATION = 119, "The controller refuses this registration."
    TRANSACTION_ABORTABLE = 120, "The transaction failed; abort it and begin a new one."
    INVALID_RECORD_STATE = 121, "The record is in a state that does not allow this acknowledgement."
    SHARE_SESSION_NOT_FOUND = 122, "The broker has no such share session.", RETRIABLE
    INVALID_SHARE_SESSION_EPOCH = (
        123,
        "The epoch of the share session is not the expected one.",
        RETRIABLE,
    )
    FENCED_STATE_EPOCH = 124, "The share coordinator has seen a newer state epoch."
    INVALID_VOTER_KEY = 125, "The voter's key is not that of the receiver."
    DUPLICATE_VOTER = 126, "That voter is in the set already."
    VOTER_NOT_FOUND = 127, "That voter is not in the set."
    INVALID_REGULAR_EXPRESSION = 128, "The regular expression cannot be understood."
    REBOOTSTRAP_REQUIRED = 129, "The client has to start again from its bootstrap addresses."
    STREAMS_INVALID_TOPOLOGY = 130, "The topology that the streams member sent is not valid."
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, "The epoch of the streams topology is not valid."
    STREAMS_TOPOLOGY_FENCED = 132, "The group has moved on to a newer streams topology."
    SHARE_SESSION_LIMIT_REACHED = (
        133,
        "The broker has as many share sessions as it may have.",
        RETRIABLE,
    )
    GROUP_DELETION_FAILED = 134, "The group could not be deleted completely."
    STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED = (
        135,
        "The broker could not take over the description of the streams topology.",
    )
    CONTROLLER_ID_NOT_REGISTERED = 136, "No controller of that id is registered."


AUTHENTICATION_FAILURES = (
    Code.SSL_HANDSHAKE_FAILED,
    Code.SASL_AUTHENTICATION_FAILED,
    Code.UNSUPPORTED_SASL_MECHANISM,
    Code.ILLEGAL_SASL_STATE,
)
"""A connection was not secured as one side wants it. As in Kafka's clients, nobody tries again."""
UNKNOWN_TOPIC = (Code.UNKNOWN_TOPIC_ID, Code.UNKNOWN_TOPIC_OR_PARTITION)
"""A topic does not exist: by its id, and by its name."""


class Refused(Exception):
    """A request that is answered with an error code.

    code: the error code of the response. why: one sentence for people; the code's own by default.
    """

    def __init__(self, code: Code, why: str = "") -> None:
        self.code = code
        self.why = why or code.sentence
        super().__init__(code, self.why)

    def __str__(self) -> str:
        return f"{self.code.name}: {self.why}"


class Unanswerable(Exception):
    """No broker has answered a query without which its caller cannot go on; the text says why.

    Asking again later may succeed. has_remedy: the text also says what to do about it.
    """

    has_remedy = False


class DecodeError(ValueError):
    """Bytes that are not the message they claim to be; the text names the message and the field."""


class EncodeError(ValueError):
    """A value that a version cannot express; the text names the message and the field."""


class UnfittingValue(EncodeError):
    """A value that the type of its field cannot express, such as a number of over eight bytes."""


class UnencodableText(EncodeError):
    """A text that no version can express: UTF-8 has no bytes for a lone surrogate.

    Python makes one of each byte of a command line that is not UTF-8. text: the whole text.
    """

    def __init__(self, text: str) -> None:
        """Create the error for a text with a lone surrogate."""
        super().__init__(f"{text!r} has a lone surrogate")
        self.text = text


def raised_at(error: Exception) -> str:
    """Return the file and line where an error was raised, for a log line."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "?" if trace is None else _line_of(trace)


def with_foreign_line(text: str, error: BaseException) -> str:
    """Return a text about an error with the file and line of foreign code that raised it.

    That is the last call outside this package and the standard library: the user's own line, where
    it is `json` that raises. An error without such a call leaves the text as it is.
    """
    line = ""
    trace = error.__traceback__
    while trace is not None:
        module = str(trace.tb_frame.f_globals.get("__name__")).partition(".")[0]
        if module != OWN_MODULE and module not in sys.stdlib_module_names:
            line = f" ({_line_of(trace)})"
        trace = trace.tb_next
    return text + line


def _line_of(trace: TracebackType) -> str:
    return f"{trace.tb_frame.f_code.co_filename.rpartition('/')[2]}:{trace.tb_lineno}"
