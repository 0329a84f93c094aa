"""Our classic member, session and Consumer on our own broker: every scenario of scenarios.py and
consumer_scenarios.py, eager and cooperative, and of classic_scenarios.py and static_scenarios.py.
"""

from tests.client.shared_scenarios import adopt

adopt(
    globals(),
    "our_broker",
    "scenarios",
    "consumer_scenarios",
    "classic_scenarios",
    "static_scenarios",
)
