"""Our classic member, session and Consumer on a real Apache Kafka: what every member must live
through, eager and cooperative, and what only classic ones do.
"""

from tests.client.shared_scenarios import adopt

adopt(globals(), "scenarios", "consumer_scenarios", "classic_scenarios", "static_scenarios")
