"""A schema registry, by the official client, as driver and workers know it."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from confluent_kafka.schema_registry import RegisteredSchema, Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError

from apportion.spark.decoding.errors import RegistryError

LATEST = "latest"


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
            raise RegistryError(
                f"{self._what(error)}: no schema of subject {subject!r}, version {number}"
            ) from None

    def by_id(self, schema_id: int) -> Schema:
        """Return the schema of that id. Raises RegistryError."""
        try:
            return self.client.get_schema(schema_id)
        except Exception as error:
            raise RegistryError(f"{self._what(error)}: no schema of id {schema_id}") from None

    def references(self, schema: Schema) -> list[Schema]:
        """Return the schemas that a schema names, in its order. Raises RegistryError."""
        return [
            self.registered(str(each.subject), each.version).schema
            for each in schema.references or ()
        ]

    def _what(self, error: Exception) -> str:
        """Return which registry has failed, and how."""
        if isinstance(error, RegistryError):
            return str(error)
        if isinstance(error, SchemaRegistryError):
            return f"the schema registry {self.url} says {error.error_code}: {error.error_message}"
        return f"the schema registry {self.url} cannot be asked ({type(error).__name__}: {error})"


@lru_cache(maxsize=8)
def _client(settings: tuple[tuple[str, Any], ...]) -> SchemaRegistryClient:
    try:
        return SchemaRegistryClient(dict(settings))
    except ValueError as error:
        raise RegistryError(f"the schema registry's settings are wrong: {error}") from None
