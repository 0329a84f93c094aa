"""The settings that say who decides what clients may do: Kafka's names, and its one authorizer."""

from functools import cache

STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
AUTHORIZERS = ("", STANDARD_AUTHORIZER, "StandardAuthorizer")
"""The values of authorizer.class.name; the first stands for none."""


@cache
def super_users_of(text: str) -> tuple[str, ...]:
    """Return the principals of `super.users`, which have semicolons between them.

    Errors: ValueError, with a sentence, for one without a type.
    """
    principals = tuple(part.strip() for part in text.split(";") if part.strip())
    for principal in principals:
        if ":" not in principal:
            raise ValueError(
                f"super.users has {principal!r}, which is no principal: write User:{principal}."
            )
    return principals


def check_authorizer(class_name: str, super_users: str, *, allows_without_acls: bool) -> None:
    """Refuse another authorizer, and settings of one where there is none. Errors: ValueError."""
    if class_name not in AUTHORIZERS:
        raise ValueError(
            f"authorizer.class.name must be {STANDARD_AUTHORIZER} or StandardAuthorizer, not "
            f"{class_name!r}."
        )
    names = {
        "super.users": bool(super_users_of(super_users)),
        "allow.everyone.if.no.acl.found": allows_without_acls,
    }
    for name, is_given in names.items():
        # Kafka says nothing, and lets everybody do everything.
        if is_given and not class_name:
            raise ValueError(f"{name} has no effect without authorizer.class.name: set that, too.")
