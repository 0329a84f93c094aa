"""A schema registry, by the official client, as driver and workers know it."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus
from typing import Any

from confluent_kafka.schema_registry import RegisteredSchema, Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError

from apportion.spark.decoding.errors import RegistryError

LATEST = "latest"
OTHER_SUBJECT = (
    "see that the name of the subject is right (for the values of a topic it is mostly the topic's "
    "with -value) and that the version is registered there"
)
OTHER_REGISTRY = "give decode the registry with which the records were written"
UNREACHABLE = "see that it runs and can be reached from this host, or give another url"
LOGIN = "give decode the login of somebody who may read there, as basic.auth.user.info"
REMEDIES: dict[int, str] = {HTTPStatus.UNAUTHORIZED: LOGIN, HTTPStatus.FORBIDDEN: LOGIN}
SEE_ITS_LOG = "see the log of the registry"


@dataclass(frozen=True, repr=False)
class SchemaRegistry:
    """A registry by the settings of its client, which each process opens once.

    A worker asks it for each writer's schema that it meets, and keeps it.
    """

    settings: tuple[tuple[str, Any], ...]

    @classmethod
    def at(cls, settings: str | Mapping[str, Any]) -> "SchemaRegistry":
        """Return the registry of a URL, or of settings of confluent-kafka's client."""
        given = {"url": settings} if isinstance(settings, str) else dict(settings)
        return cls(tuple(sorted(given.items())))

    def __repr__(self) -> str:
        """Return the registry's URL alone: the other settings may be secrets."""
        return f"SchemaRegistry({self.url!r})"

    @property
    def url(self) -> Any:
        """The URL of the registry; None where the settings have none."""
        return dict(self.settings).get("url")

    @property
    def client(self) -> SchemaRegistryClient:
        """The client of this process. Raises RegistryError for settings that it refuses."""
        return _client(self.settings)

    def registered(self, subject: str, version: int | None) -> RegisteredSchema:
        """Return a version of a subject, the latest if None. Raises RegistryError."""
        try:
            if version is None:
                self.client.clear_latest_caches()  # type: ignore[no-untyped-call]  # it would keep the first answer for ever
                return self.client.get_latest_version(subject)
            return self.client.get_version(subject, version)
        except Exception as error:  # the client raises those of its HTTP library, too
            number = LATEST if version is None else version
            what = f"no schema of subject {subject!r}, version {number}"
            raise self._error(error, what, OTHER_SUBJECT) from None

    def by_id(self, schema_id: int) -> Schema:
        """Return the schema of that id. Raises RegistryError."""
        try:
            return self.client.get_schema(schema_id)
        except Exception as error:
            raise self._error(error, f"no schema of id {schema_id}", OTHER_REGISTRY) from None

    def references(self, schema: Schema) -> list[Schema]:
        """Return the schemas that a schema names, in its order. Raises RegistryError."""
        return [
            self.registered(str(each.subject), each.version).schema
            for each in schema.references or ()
        ]

    def _error(self, error: Exception, what: str, if_unknown: str) -> RegistryError:
        """Return which registry has failed and how, what is missing, and what to do.

        if_unknown: the remedy where the registry answers that it does not have it.
        """
        if isinstance(error, RegistryError):
            return error
        registry = f"the schema registry {self.url}"
        if not isinstance(error, SchemaRegistryError):
            kind = type(error).__name__
            return RegistryError(
                f"{registry} cannot be asked ({kind}: {error}): {what}; {UNREACHABLE}"
            )
        said = f"{registry} says {error.error_code}: {str(error.error_message).removesuffix('.')}"
        remedy = REMEDIES.get(error.http_status_code, SEE_ITS_LOG)
        unknown = error.http_status_code == HTTPStatus.NOT_FOUND
        return RegistryError(f"{said}: {what}; {if_unknown if unknown else remedy}")


@lru_cache(maxsize=8)
def _client(settings: tuple[tuple[str, Any], ...]) -> SchemaRegistryClient:
    try:
        return SchemaRegistryClient(dict(settings))
    except ValueError as error:
        raise RegistryError(
            f"the schema registry's settings are wrong: {error}; give its URL, or settings of "
            "confluent_kafka.schema_registry.SchemaRegistryClient"
        ) from None
