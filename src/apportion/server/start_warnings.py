"""The lines of a start about security: settings that are allowed, and keep clients out."""

from collections.abc import Iterator, Sequence

from apportion.machine import ANONYMOUS
from apportion.node.authorizer_settings import super_users_of
from apportion.node.broker import authorizer_or_none
from apportion.node.listeners import Listener, ListenerTls
from apportion.node.settings import BrokerSettings
from apportion.readable import listed, readable, shortened
from apportion.security.acls import (
    CLUSTER_NAME,
    EVERY_HOST,
    EVERY_PRINCIPAL,
    AclOperation,
    AclPermission,
    ResourceType,
)
from apportion.security.key_stores import ClientAuth
from apportion.security.principals import MAX_SHOWN, distinguished_name
from apportion.security.scram_credentials import ScramMechanism
from apportion.security.validity import utc_text, validity
from apportion.store.metadata_log import LogEnd, ScramCredentials

USER = "User:"
QUOTES = "\"'"
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
        fault = _certificate_fault_or_none(tls, now_s)
        if fault is not None:
            yield (
                f"clients will refuse the certificate of the listener {listener}{fault} "
                f"({tls.certificate_setting})"
            )


def _certificate_fault_or_none(tls: ListenerTls, now_s: float) -> str | None:
    """Return which certificate of a listener's chain is not valid now, for the end of a sentence.

    None if clients may trust the chain all the same, or if it cannot be read here.
    """
    # Not imported by the many brokers without TLS.
    from apportion.drive.key_files import certificates_of, trusted_certificates
    from apportion.security.chains import invalid_link_or_none

    def trusted() -> list[bytes]:
        stores = (None, tls.trusted) if tls.trusted else (None,)
        return [each for store in stores for each in trusted_certificates(store)]

    chain = certificates_of(tls.certificate)
    try:
        link = invalid_link_or_none(chain, now_s, trusted)
        if link is None:
            return None
        name, (first_s, last_s) = distinguished_name(link), validity(link)
    except (IndexError, ValueError):
        return None  # OpenSSL has read it
    when_s, what = (last_s, "has expired at") if now_s > last_s else (first_s, "is not valid until")
    name = shortened(name, MAX_SHOWN)
    unless = "" if link == chain[0] else f", unless they trust another certificate of {name}"
    return f"{unless}: {name} {what} {utc_text(when_s)}"


def user_warnings(listeners: Sequence[Listener], credentials: ScramCredentials) -> Iterator[str]:
    """Yield a line for each listener without a user, and one for users without a listener."""
    offered = {
        str(listener): listener.security.sasl.mechanisms
        for listener in listeners
        if listener.security.sasl is not None
    }
    for listener, mechanisms in offered.items():
        # A listener with PLAIN has users, and a token names its user.
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
        who = listed([shortened(user, MAX_SHOWN) for user in stranded])
        names = " and ".join(name for name, users in useless.items() if users)
        yield (
            f"{who} cannot log in: no listener offers {names}, and there is no password for "
            "another mechanism (sasl.enabled.mechanisms)"
        )


def open_listener_warnings(
    listeners: Sequence[Listener], settings: BrokerSettings
) -> Iterator[str]:
    """Yield a line for each of these listeners, which other machines reach without a proof.

    It says what any client may do there.
    """
    for listener in listeners:
        if not settings.authorizer_class_name:
            what = "any client that connects may read and write everything"
        elif listener.security.sasl is not None:
            what = "by a token without a signature any client that connects can be any user"
        elif ANONYMOUS in super_users_of(settings.super_users):
            what = (
                f"any client that connects can be {ANONYMOUS}, a super user, who may read and "
                "write everything"
            )
        else:
            what = f"any client that connects can be {ANONYMOUS}, and do what that user may"
        yield (
            f"the listener {listener} is reachable from other machines and authenticates nobody: "
            f"{what} (docs/security.md)"
        )


def unchangeable_acl_warnings(
    listeners: Sequence[Listener], durable: LogEnd, settings: BrokerSettings
) -> Iterator[str]:
    """Yield a line if nobody who can log in may change ACLs, or users.

    Nothing is said where names are not known before: of certificates and tokens.
    """
    authorizer = authorizer_or_none(settings, durable.acls)
    if authorizer is None:
        return
    supers = [each for each in authorizer.super_users if each.startswith(USER)]
    may: dict[str, None] = dict.fromkeys(supers)
    for entries in authorizer.acls.about(ResourceType.CLUSTER, CLUSTER_NAME):
        for principal, acls in entries.items():
            if any(
                acl.permission == AclPermission.ALLOW and acl.concerns(AclOperation.ALTER)
                for acl in acls
            ):
                may[principal] = None
    known = _principals_or_none(listeners, durable.scram_credentials)
    if known is None:
        is_any = bool(may)
    else:
        is_any = not known or EVERY_PRINCIPAL in may or any(each in may for each in known)
    alter = (AclOperation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME)
    if is_any or authorizer.allows(EVERY_PRINCIPAL, EVERY_HOST, *alter):
        return
    who = listed([shortened(each, MAX_SHOWN) for each in supers])
    why = f"no client can log in as {who} (super.users)" if supers else "super.users names nobody"
    yield (
        f"nobody can change ACLs or users: {why}, and no ACL allows one who can log in to ALTER "
        "the cluster"
    )


def _principals_or_none(
    listeners: Sequence[Listener], credentials: ScramCredentials
) -> dict[str, None] | None:
    """Return who can be a client; None if that cannot be known before it connects."""
    found: dict[str, None] = {}
    for listener in listeners:
        tls, sasl = listener.security.tls, listener.security.sasl
        if sasl is None:
            if tls is not None and tls.client_auth is not ClientAuth.NONE:
                return None
            found[ANONYMOUS] = None
            continue
        if sasl.tokens is not None:
            return None
        users = [*sasl.passwords]
        for mechanism in sasl.mechanisms:
            users += credentials[SCRAM[mechanism]] if mechanism in SCRAM else ()
        found |= dict.fromkeys(f"{USER}{each}" for each in users)
    return found
