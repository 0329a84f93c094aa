"""The options of the Spark source about TLS and SASL: Kafka's, as jobs have them already."""

from collections.abc import Mapping
from typing import Annotated, TypedDict

from apportion.client.kafka_security import kafka_security
from apportion.client.security_fields import HOST_NAME_CHECKS
from apportion.security.client_security import PLAINTEXT, ClientSecurity
from apportion.security.key_stores import StoreKind
from apportion.security.names import MECHANISMS, PROTOCOLS, SecurityProtocol
from apportion.settings import Setting
from apportion.spark.options.values import PREFIX, option_error

STORE_TYPE = Setting(
    "The format of that file; JKS is mostly PKCS12.",
    StoreKind.JKS.value,
    choices=tuple(each.value for each in StoreKind),
)


def _text(sentence: str, default: str = "none") -> Setting:
    return Setting(sentence, default_words=default)


KafkaSecurityOptions = TypedDict(
    "KafkaSecurityOptions",
    {
        "kafka.security.protocol": Annotated[
            str,
            Setting(
                "The protocol of the listener.", SecurityProtocol.PLAINTEXT.value, choices=PROTOCOLS
            ),
        ],
        "kafka.ssl.truststore.location": Annotated[
            str, _text("A file with the CA certificates of the cluster.", "the system's")
        ],
        "kafka.ssl.truststore.type": Annotated[str, STORE_TYPE],
        "kafka.ssl.truststore.password": Annotated[str, _text("The password of that file.")],
        "kafka.ssl.truststore.certificates": Annotated[
            str, _text("The CA certificates as PEM text, in place of a file.")
        ],
        "kafka.ssl.keystore.location": Annotated[
            str, _text("A file with the query's certificate and key (mTLS).")
        ],
        "kafka.ssl.keystore.type": Annotated[str, STORE_TYPE],
        "kafka.ssl.keystore.password": Annotated[str, _text("The password of that file.")],
        "kafka.ssl.keystore.certificate.chain": Annotated[
            str, _text("The certificate with its chain as PEM text, in place of a file.")
        ],
        "kafka.ssl.keystore.key": Annotated[str, _text("Its key as PEM text.")],
        "kafka.ssl.key.password": Annotated[str, _text("The password of the key.")],
        "kafka.ssl.enabled.protocols": Annotated[
            str, Setting("The versions of TLS that are offered.", "TLSv1.2,TLSv1.3")
        ],
        "kafka.ssl.endpoint.identification.algorithm": Annotated[
            str,
            Setting(
                "https: a broker's certificate must name its host; none: any will do.",
                "https",
                choices=HOST_NAME_CHECKS,
            ),
        ],
        "kafka.sasl.mechanism": Annotated[
            str, Setting("The SASL mechanism.", default_words="none", choices=MECHANISMS)
        ],
        "kafka.sasl.jaas.config": Annotated[
            str,
            _text(
                "The login: PlainLoginModule, ScramLoginModule or OAuthBearerLoginModule of Kafka "
                "with its options."
            ),
        ],
        "kafka.sasl.login.callback.handler.class": Annotated[
            str,
            _text(
                "For OAUTHBEARER: Kafka's OAuthBearerLoginCallbackHandler, or a Python function "
                "as module:function, which returns a token."
            ),
        ],
        "kafka.sasl.oauthbearer.token.endpoint.url": Annotated[
            str, _text("Where an OAuth server gives tokens, https://...")
        ],
        "kafka.sasl.oauthbearer.client.credentials.client.id": Annotated[
            str, _text("The id of this client there, if the login has none.")
        ],
        "kafka.sasl.oauthbearer.client.credentials.client.secret": Annotated[
            str, _text("Its secret.")
        ],
        "kafka.sasl.oauthbearer.scope": Annotated[
            str, _text("The scope that tokens are asked for.")
        ],
    },
    total=False,
)


def query_security(options: Mapping[str, str]) -> ClientSecurity:
    """Return the security of a query with these options, whose files are there and can be read.

    Raises OptionError, without any secret.
    """
    try:
        security = kafka_security(options, PREFIX)
    except ValueError as error:
        # Without its cause, which may show a secret.
        raise option_error(str(error)) from None
    if security == PLAINTEXT:
        return security  # it has no file, and what reads them is not imported
    from apportion.client.connection_security import ConnectionSecurity

    try:
        ConnectionSecurity(security)
    except ValueError as error:
        fault = f"{PREFIX}security.protocol is {security.protocol.value}: {error}"
        raise option_error(fault) from None
    return security
