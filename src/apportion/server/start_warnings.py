"""The lines of a start about security: settings that are allowed, and keep clients out."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from apportion.node.authorizer_settings import super_users_of
from apportion.node.listeners import Listener
from apportion.readable import listed, readable, shortened
from apportion.security.principals import distinguished_name
from apportion.security.scram_credentials import ScramMechanism
from apportion.security.validity import validity
from apportion.store.metadata_log import ScramCredentials

USER = "User:"
QUOTES = "\"'"
MAX_QUOTED = 200
"""How much of a certificate's name stands in a log line."""
SCRAM = {each.value: each for each in ScramMechanism}


def super_user_warnings(super_users: str) -> Iterator[str]:
    """Yield a line for each principal of `super.users` that no client can have.

    Kafka takes these, too; one without a type is refused.
    """
    for principal in super_users_of(super_users):
        bare = principal.strip(QUOTES)
        if bare != principal:
            yield (
                f"super.users has {readable(principal)}, which no client is: its quotation marks "
                f"are a part of the name; write {readable(bare)}"
            )
        elif not principal.startswith(USER):
            name = principal.partition(":")[2]
            yield (
                f"super.users has {readable(principal)}, which no client is: every principal here "
                f"begins with {USER}, as {USER}{readable(name)} does"
            )


def certificate_warnings(listeners: Sequence[Listener], now_s: float) -> Iterator[str]:
    """Yield a line for each listener whose certificate, or one of its chain, is not valid now.

    Errors: ValueError for a store that cannot be read.
    """
    for listener in listeners:
        if (tls := listener.security.tls) is None:
            continue
        # Not imported by the many brokers without TLS.
        from apportion.drive.key_files import certificates_of

        faults = (_fault_or_none(each, now_s) for each in certificates_of(tls.certificate))
        fault = next((each for each in faults if each is not None), None)
        if fault is not None:
            yield (
                f"clients will refuse the certificate of the listener {listener}: {fault} "
                f"({tls.certificate_setting})"
            )


def _fault_or_none(certificate: bytes, now_s: float) -> str | None:
    """Return why a certificate is not valid now; None if it is, or cannot be read here."""
    try:
        name, (first_s, last_s) = distinguished_name(certificate), validity(certificate)
    except ValueError:
        return None  # OpenSSL has read it
    if first_s <= now_s <= last_s:
        return None
    when_s, what = (last_s, "has expired at") if now_s > last_s else (first_s, "is not valid until")
    time = datetime.fromtimestamp(when_s, UTC).strftime("%Y-%m-%d %H:%M:%S")
    return f"{shortened(name, MAX_QUOTED)} {what} {time} UTC"


def user_warnings(listeners: Sequence[Listener], credentials: ScramCredentials) -> Iterator[str]:
    """Yield a line for each listener without a user, and one for users without a listener."""
    offered = {
        str(listener): listener.security.sasl.mechanisms
        for listener in listeners
        if listener.security.sasl is not None
    }
    for listener, mechanisms in offered.items():
        # A listener with PLAIN has users, and who comes with a token is known by that.
        scram = [SCRAM[each] for each in mechanisms if each in SCRAM]
        if len(scram) == len(mechanisms) and not any(credentials[each] for each in scram):
            names = " and ".join(each.value for each in scram)
            yield (
                f"nobody can log in at the listener {listener}: there is no user of {names}. Give "
                "one as --add-scram, or by `apportion users add` at another listener"
            )
    everywhere = {name for mechanisms in offered.values() for name in mechanisms}
    reached = {user for name in SCRAM if name in everywhere for user in credentials[SCRAM[name]]}
    useless = {
        name: sorted({*credentials[mechanism]} - reached)
        for name, mechanism in SCRAM.items()
        if name not in everywhere
    }
    stranded = sorted({user for users in useless.values() for user in users})
    if stranded:
        who = listed([shortened(user, MAX_QUOTED) for user in stranded])
        names = " and ".join(name for name, users in useless.items() if users)
        yield (
            f"{who} cannot log in: no listener offers {names}, and there is no password for "
            "another mechanism (sasl.enabled.mechanisms)"
        )
