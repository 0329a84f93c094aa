import pytest

import apportion
from apportion.streams.topology import TopologyRefused

TOPOLOGY = [{"sources": ["lines"]}]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"group_protocol": "classic"}, "group_protocol cannot be chosen: the members of a Streams group agree on it"),
        ({"num_standby_replicas": -1}, "num_standby_replicas must be a whole number that is not negative, not -1"),
        ({"acceptable_recovery_lag": "many"}, "acceptable_recovery_lag must be a whole number that is not negative, not 'many'"),
        ({"max_warmup_replicas": 0}, "max_warmup_replicas must be at least 1, not 0: else no state ever moves"),
        ({"task_assignor": "best"}, "there is no task_assignor 'best'; there are highavailability, sticky, fallback"),
        ({"client_tags": {"zone": 1}}, "client_tags must map texts to texts"),
        ({"rack_aware_assignment_tags": ("zone",)}, "rack_aware_assignment_tags names 'zone', which is not in client_tags"),
        ({"on_tasks": 3}, "on_tasks must be a function of a TaskShare, not 3"),
        ({"process_id": b"short"}, "process_id must be 16 bytes, not 5"),
        ({"application_server": "here"}, "application.server must be host:port, not 'here'"),
        ({"upgrade_from": "0.9"}, "upgrade.from must name a release such as 1.1, not '0.9'"),
        ({"release": "5.0"}, "there is no release '5.0' of Kafka Streams known here"),
        ({"num_standbys": 1}, "unknown option 'num_standbys'"),
    ],
)
def test_an_option_that_cannot_be_meant_is_refused_in_one_sentence(options, why):
    with pytest.raises(ValueError, match=why):
        apportion.StreamsConsumer("localhost:1", "app", topology=TOPOLOGY, **options)


def test_a_topology_that_cannot_be_is_refused_before_anything_is_asked():
    with pytest.raises(TopologyRefused, match="subtopology 0 reads no topic"):
        apportion.StreamsConsumer("localhost:1", "app", topology=[{}])
