import java.time.Duration;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Transformer;
import org.apache.kafka.streams.kstream.ValueTransformer;
import org.apache.kafka.streams.processor.ProcessorContext;
import org.apache.kafka.streams.processor.TaskMetadata;
import org.apache.kafka.streams.processor.ThreadMetadata;
import org.apache.kafka.streams.state.StreamsMetadata;

/** What Kafka Streams 2.8 calls otherwise than releases from 3.3 on (`modern/`). */
final class Release {
    private Release() {}

    static KStream<String, String> flatMap(KStream<String, String> records, Counters.Making<String> making) {
        return records.flatTransform(() -> new Transformer<String, String, Iterable<KeyValue<String, String>>>() {
            private ProcessorContext from;

            @Override
            public void init(ProcessorContext context) {
                from = context;
            }

            @Override
            public Iterable<KeyValue<String, String>> transform(String key, String value) {
                return making.of(from.topic(), from.partition(), from.offset(), value);
            }

            @Override
            public void close() {}
        });
    }

    static KStream<String, String> peek(KStream<String, String> records, Counters.Telling<String> telling) {
        return records.transformValues(() -> new ValueTransformer<String, String>() {
            private ProcessorContext from;

            @Override
            public void init(ProcessorContext context) {
                from = context;
            }

            @Override
            public String transform(String value) {
                telling.of(from.topic(), from.partition(), from.offset(), value);
                return value;
            }

            @Override
            public void close() {}
        });
    }

    /** {thread: state, active, standby}. */
    static Map<String, Object> threads(KafkaStreams streams) {
        Map<String, Object> threads = new TreeMap<>();
        for (ThreadMetadata each : streams.localThreadsMetadata()) {
            var active = ids(each.activeTasks());
            var standby = ids(each.standbyTasks());
            threads.put(each.threadName(), Map.of("state", each.threadState(), "active", active, "standby", standby));
        }
        return threads;
    }

    /** {host: active, standby}, in partitions. */
    static Map<String, Object> hosts(KafkaStreams streams) {
        Map<String, Object> hosts = new TreeMap<>();
        for (StreamsMetadata each : streams.allMetadata()) {
            var active = names(each.topicPartitions());
            hosts.put(each.host() + ":" + each.port(), Map.of("active", active, "standby", names(each.standbyTopicPartitions())));
        }
        return hosts;
    }

    /** True when it has ended; whether its members leave the group only their consumers can be told. */
    static boolean close(KafkaStreams streams, boolean leaves) {
        return streams.close(Duration.ofSeconds(30));
    }

    private static TreeSet<String> ids(Set<TaskMetadata> tasks) {
        TreeSet<String> ids = new TreeSet<>();
        tasks.forEach(each -> ids.add(each.taskId()));
        return ids;
    }

    private static TreeSet<String> names(Set<TopicPartition> partitions) {
        TreeSet<String> names = new TreeSet<>();
        partitions.forEach(each -> names.add(each.toString()));
        return names;
    }
}
