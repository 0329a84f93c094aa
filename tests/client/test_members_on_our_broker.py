"""Our member, session, cluster and Consumer on our own broker: every scenario of scenarios.py,
consumer_scenarios.py and expression_scenarios.py.
"""

from tests.client.shared_scenarios import adopt

adopt(globals(), "our_broker", "scenarios", "consumer_scenarios", "expression_scenarios")
