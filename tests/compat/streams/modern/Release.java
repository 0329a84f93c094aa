import java.time.Duration;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsMetadata;
import org.apache.kafka.streams.TaskMetadata;
import org.apache.kafka.streams.ThreadMetadata;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.processor.api.ContextualFixedKeyProcessor;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.FixedKeyRecord;
import org.apache.kafka.streams.processor.api.Record;

/** What releases from 3.3 on call otherwise than older ones (`former/`). */
final class Release {
    private Release() {}

    static KStream<String, String> flatMap(KStream<String, String> records, Counters.Making<String> making) {
        return records.process(() -> new ContextualProcessor<String, String, String, String>() {
            @Override
            public void process(Record<String, String> record) {
                var from = context().recordMetadata().orElseThrow();
                making.of(from.topic(), from.partition(), from.offset(), record.value())
                        .forEach(each -> context().forward(record.withKey(each.key).withValue(each.value)));
            }
        });
    }

    static KStream<String, String> peek(KStream<String, String> records, Counters.Telling<String> telling) {
        return records.processValues(() -> new ContextualFixedKeyProcessor<String, String, String>() {
            @Override
            public void process(FixedKeyRecord<String, String> record) {
                var from = context().recordMetadata().orElseThrow();
                telling.of(from.topic(), from.partition(), from.offset(), record.value());
                context().forward(record);
            }
        });
    }

    /** {thread: state, active, standby}. */
    static Map<String, Object> threads(KafkaStreams streams) {
        Map<String, Object> threads = new TreeMap<>();
        for (ThreadMetadata each : streams.metadataForLocalThreads()) {
            var active = ids(each.activeTasks());
            var standby = ids(each.standbyTasks());
            threads.put(each.threadName(), Map.of("state", each.threadState(), "active", active, "standby", standby));
        }
        return threads;
    }

    /** {host: active, standby}, in partitions. */
    static Map<String, Object> hosts(KafkaStreams streams) {
        Map<String, Object> hosts = new TreeMap<>();
        for (StreamsMetadata each : streams.metadataForAllStreamsClients()) {
            var active = names(each.topicPartitions());
            hosts.put(each.host() + ":" + each.port(), Map.of("active", active, "standby", names(each.standbyTopicPartitions())));
        }
        return hosts;
    }

    /** True when it has ended. Before 4.2 no member leaves its group by this, unless its consumer is told to. */
    static boolean close(KafkaStreams streams, boolean leaves) {
        return streams.close(new KafkaStreams.CloseOptions().timeout(Duration.ofSeconds(30)).leaveGroup(leaves));
    }

    private static TreeSet<String> ids(Set<TaskMetadata> tasks) {
        TreeSet<String> ids = new TreeSet<>();
        tasks.forEach(each -> ids.add(each.taskId().toString()));
        return ids;
    }

    private static TreeSet<String> names(Set<TopicPartition> partitions) {
        TreeSet<String> names = new TreeSet<>();
        partitions.forEach(each -> names.add(each.toString()));
        return names;
    }
}
