"""The error that a query to a cluster reads in a response."""

from typing import Any

import pytest

from apportion.errors import Code, Refused
from apportion.member.cluster_queries.query import BrokerQuery


def refusal(query: BrokerQuery[Any], response: Any) -> tuple[Code, str]:
    """The code and sentence with which the query refuses the response."""
    with pytest.raises(Refused) as refused:
        query.parse(response)
    return refused.value.code, refused.value.why
