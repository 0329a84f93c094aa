"""Transcripts of commands on a broker: see `test_transcripts.py`."""

import itertools
import json
import re
import shlex
import textwrap
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from apportion.broker import BrokerSecurity, EmbeddedBroker
from apportion.cli.main import app
from apportion.client.cluster import Cluster
from apportion.errors import Code, Refused
from apportion.member.cluster_queries.acls import CreateAclsQuery
from apportion.member.cluster_queries.offsets import AllOffsetsQuery
from apportion.member.cluster_queries.retries import send_until_accepted
from apportion.member.group_claims import metadata_of
from apportion.security.client_security import ClientSecurity, PasswordLogin
from apportion.topics import TopicIdPartition
from apportion.wire.batch import encode_batch
from apportion.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from apportion.wire.records.consumer_protocol import ConsumerProtocolSubscription
from apportion.wire.records.consumer_serde import encode
from tests.cli import streams_groups
from tests.cli.completions import completed
from tests.cli.fake_brokers import FAKES
from tests.cli.members import join, leave
from tests.client import changes
from tests.node.acl_requests import acl

ROOMS = ("acls", "doctor", "groups", "serve", "sim", "streams", "topics", "users", "watch")
WITHOUT_CLUSTER = ("serve", "sim", "streams rehearse")
VARIABLE = re.compile(r"[A-Z_]+=")
MINUTE_MS = 60_000
MASKS = (
    re.compile(r"(?!00000000-)[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
    re.compile(r"(?<![\w-])(?=[\w-]*[a-z])(?=[\w-]*[A-Z])[\w-]{22}(?![\w-])"),
)


class Transcript:
    """Commands and steps of one transcript, on one broker after the other."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._undo = ExitStack()
        self._environment: dict[str, str] = {}
        self.bootstrap = self._logins_at = ""
        self.cluster: Any = None

    def play(self, line: str) -> list[str]:
        """Take one step; return what it shows."""
        line = line.replace("TMP", str(self._directory)).replace("BROKER", self.bootstrap)
        words = shlex.split(line)
        self._environment = dict(
            word.split("=", 1) for word in itertools.takewhile(VARIABLE.match, words)
        )
        words = words[len(self._environment) :]
        answers = self._command(words) if words[0] in ROOMS else self._step(words)
        return [each for answer in answers for each in self._masked(answer)]

    def close(self) -> None:
        self._undo.close()

    def _masked(self, text: str) -> list[str]:
        """A line without what is new in every run, broken between words."""
        if self.bootstrap:
            text = text.replace(self.bootstrap, "BROKER")
        text = text.replace(str(self._directory), "TMP").rstrip()
        for mask in MASKS:
            text = mask.sub("UUID", text)
        long = {"break_long_words": False, "break_on_hyphens": False, "drop_whitespace": True}
        return textwrap.wrap(text, 98, subsequent_indent="    ", **long) or [""]  # type: ignore[arg-type]

    # commands

    def _command(self, words: list[str]) -> list[str]:
        line = " ".join([*self._environment, *words]).lower()
        if self.bootstrap and "bootstrap" not in line and not line.startswith(WITHOUT_CLUSTER):
            words = [*words, "--bootstrap", self.bootstrap]
        code, out, err = self._ran(words)
        codes = [str(code)] * len(err)
        if code and not out and "--json" not in words:
            codes = self._codes_of_json(words, code, err)
        begin = f"apportion {words[0]}: "
        assert all(each.startswith((begin, "{")) for each in err), err
        errors = [
            f"[{shown}] {text.removeprefix(begin)}" for shown, text in zip(codes, err, strict=True)
        ]
        return out + errors + ([f"[{code}]"] if code and not err else [])

    def _ran(self, words: list[str]) -> tuple[int, list[str], list[str]]:
        """Exit code, and the lines of stdout and stderr; JSON on stdout is one line."""
        result = CliRunner().invoke(app, words, env={"COLUMNS": "200", **self._environment})
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        out = result.stdout.splitlines()
        if "--json" in words and out:
            out = [json.dumps(json.loads(result.stdout), ensure_ascii=False)]
        return result.exit_code, out, result.stderr.splitlines()

    def _codes_of_json(self, words: list[str], code: int, err: list[str]) -> list[str]:
        """A command that fails says the same with --json; return its exit code and error codes."""
        if words[0] == "serve":
            return [str(code)] * len(err)
        again, out, said = self._ran([*words, "--json"])
        assert (again, out) == (code, [])
        codes = []
        for text, failure in zip(err, map(json.loads, said), strict=True):
            error = failure.pop("error")
            sentence = text.removeprefix(f"apportion {words[0]}: ").removeprefix(f"{error}: ")
            assert failure == {"message": sentence}
            codes.append(str(code) if error is None else f"{code} {error}")
        return codes

    # steps

    def _step(self, words: list[str]) -> list[str]:
        steps: dict[str, Any] = {
            "broker": self._broker,
            "fake": self._fake,
            "topic": self._topic,
            "records": self._records,
            "trim": self._trim,
            "commit": self._commit,
            "stored": self._stored,
            "joins": self._joins,
            "leaves": self._leaves,
            "classic": self._classic,
            "classic-group": self._classic_group,
            "rebalancing": self._rebalancing,
            "file": self._file,
            "tab": self._tab,
            "acl": self._acl,
            "secured": self._secured,
            "logins": self._logins,
            "login": self._login,
            "list": self._list,
        }
        name = words.pop(words[1:2] in (["joins"], ["leaves"]))
        answers: list[str] | None = steps[name](*words)
        return answers or []

    def _broker(self, *settings: str) -> None:
        """A new broker without topics and groups, in place of the last one."""
        self.close()
        values: dict[str, Any] = dict(each.split("=") for each in settings)
        self._enter(self._undo.enter_context(EmbeddedBroker(**values)).bootstrap)

    def _fake(self, name: str, *more: str) -> None:
        """A broker of `fake_brokers.py` in place of the last one."""
        self.close()
        broker = FAKES[name](*more)
        self._undo.callback(broker.close)
        broker.start()
        self.bootstrap = broker.bootstrap

    def _enter(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.cluster = Cluster(bootstrap, client_id="reader")
        self._undo.callback(self.cluster.close)

    def _topic(self, name: str, count: str, *config: str) -> None:
        self.cluster.create_topic(name, int(count), config=dict(each.split("=") for each in config))

    def _partition(self, text: str) -> TopicIdPartition:
        topic, _, number = text.rpartition("-")
        return TopicIdPartition(topic, self.cluster.topics([topic]).named(topic).id, int(number))

    def _records(self, partition: str, count: str, first_ms: str = "1") -> None:
        """So many records in batches of one, a minute apart."""
        for number in range(int(count)):
            time_ms = int(first_ms) + number * MINUTE_MS
            batch = encode_batch([(None, b"a", ())], timestamp_ms=time_ms)
            self.cluster.produce(self._partition(partition), batch)

    def _trim(self, partition: str, offset: str) -> None:
        """The log begins at that offset."""
        changes.delete_records(self.cluster, self._partition(partition), int(offset))

    def _commit(self, group: str, *offsets: str) -> None:
        """Offsets as `t-0=5`; `sink=/a` for each sink that has them."""
        pairs = [each.split("=") for each in offsets]
        sinks = tuple(value for name, value in pairs if name == "sink")
        numbers = {self._partition(name): int(value) for name, value in pairs if name != "sink"}
        metadata = metadata_of(sinks) if sinks else ""
        changes.commit(self.cluster, group, numbers, metadata=metadata)

    def _stored(self, group: str) -> list[str]:
        """The committed offsets of a group, with their metadata."""
        stored = self.cluster.ask_coordinator(AllOffsetsQuery(group))
        return [
            f"{each.topic}-{each.partition}: {' '.join(map(str, value))}".rstrip()
            for each, value in stored.items()
        ] or ["nothing"]

    def _joins(self, member: str, group: str, topics: str = "t", *more: str) -> None:
        """A member of the consumer protocol joins; topics with commas between, then fields."""
        fields = dict(each.split("=") for each in more)
        join(self.cluster, group, member, *topics.split(","), **fields)

    def _leaves(self, member: str, group: str) -> None:
        leave(self.cluster, group, member)

    def _classic(self, group: str, instance: str | None = None) -> None:
        """A member of the classic protocol joins."""
        metadata = encode(ConsumerProtocolSubscription(topics=("t",)))
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=45_000,
            rebalance_timeout_ms=60_000,
            group_instance_id=instance,
            protocol_type="consumer",
            protocols=(JoinGroupRequestProtocol(name="range", metadata=metadata),),
        )
        version = 3 if instance is None else 5
        joined = self.cluster.call(request, coordinator=group, version=version)
        assert joined.error_code == Code.NONE

    def _clients(self) -> dict[str, Cluster]:
        """Clients by client id."""
        clients = {name: Cluster(self.bootstrap, client_id=name) for name in ("one", "two")}
        for client in clients.values():
            self._undo.callback(client.close)
        return clients

    def _classic_group(self, name: str) -> None:
        self._undo.enter_context(streams_groups.group(self._clients(), name))

    def _rebalancing(self, name: str) -> None:
        """A group of Kafka Streams whose one member has joined and has no assignment."""
        metadata = streams_groups.SPEAKS_11
        streams_groups.ask_to_join(self._clients()["one"], name, "seat", metadata)

    def _acl(self, name: str, principal: str, host: str) -> None:
        """An ACL, also one that the command does not add: the principal may read the topic."""
        binding = acl(name, principal=principal, host=host)
        assert self.cluster.run(send_until_accepted(CreateAclsQuery((binding,)))) == (None,)

    def _secured(self, user: str, *mechanisms: str) -> None:
        """A new broker on which only alice may do something; the logins of both are in files."""
        self.close()
        security = BrokerSecurity(
            protocol="SASL_PLAINTEXT",
            users={"alice": "a-secret", user: "b-secret"},
            mechanisms=[*mechanisms] or ["PLAIN"],
            super_users=["User:alice"],
        )
        broker = self._undo.enter_context(EmbeddedBroker(security=security))
        self.bootstrap = broker.bootstrap
        for each in ("alice", user):
            properties = broker.client_properties(each)
            path = self._directory / f"{each}.properties"
            path.write_text("\n".join(f"{name}={value}" for name, value in properties.items()))

    def _logins(self) -> None:
        """A new broker without users, whose second listener lets users of SCRAM in."""
        self.close()
        settings: dict[str, Any] = {
            "listeners": "PLAINTEXT://127.0.0.1:0,SASL://127.0.0.1:0",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
            "connection.failed.authentication.delay.ms": 1,
        }
        broker = self._undo.enter_context(EmbeddedBroker(**settings))
        self._logins_at = broker.addresses["SASL"]
        self._enter(broker.bootstrap)

    def _login(self, password: str, *mechanisms: str) -> list[str]:
        """Whether alice can log in so."""
        shown = []
        for each in mechanisms or ("SCRAM-SHA-512",):
            security = ClientSecurity(login=PasswordLogin(each, "alice", password))
            with closing(Cluster(self._logins_at, security=security)) as cluster:
                try:
                    cluster.nodes()
                except Refused as refused:
                    shown.append(refused.code.name)
                else:
                    shown.append("let in")
        return shown

    def _file(self, path: str, *lines: str) -> None:
        Path(path).write_text("".join(f"{line}\n" for line in lines))

    def _list(self, path: str) -> list[str]:
        return [" ".join(sorted(each.name for each in Path(path).iterdir())) or "nothing"]

    def _tab(self, *begun: str) -> list[str]:
        return [" ".join(completed("apportion", *begun, **self._environment)) or "nothing"]
