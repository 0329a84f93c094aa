import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.Function;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsMetadata;
import org.apache.kafka.streams.TaskMetadata;
import org.apache.kafka.streams.ThreadMetadata;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Repartitioned;
import org.apache.kafka.streams.processor.api.ContextualFixedKeyProcessor;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.FixedKeyRecord;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.processor.api.RecordMetadata;
import org.apache.kafka.streams.state.KeyValueStore;

/**
 * Applications of Kafka Streams that count, several in one process: they do what JSON lines on stdin say, and tell what happens.
 *
 * <p>A record of the source becomes words; each goes through the repartition topic `words` and is counted in the store `counts`. A
 * value of the store is "3 lines-0@17#2": the count, and which word of which record made it so. The sink has word and count.
 *
 * <p>Asked: {"do": "start", name, splitter, source, sink, partitions (of `words`), config}, {"do": "close", name, leave},
 * {"do": "report", name}. Told: {"name", "at" (ms), "event", ...}; the events are state (is), tasks (threads: state, active,
 * standby), took (topic, partition, offset, place: of each record, before anything comes of it), report (hosts: active,
 * standby), failed (why) and closed. The end of stdin is the end of everybody, who then leave their groups.
 */
public final class Counters {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final PrintStream OUT = new PrintStream(System.out, false, StandardCharsets.UTF_8);
    private static final Map<String, Function<String, List<String>>> SPLITTERS =
            Map.of("words", Counters::words, "flights", Counters::hour);

    private Counters() {}

    public static void main(String[] none) throws Exception {
        Map<String, Application> applications = new HashMap<>();
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = orders.readLine(); line != null; line = orders.readLine()) {
            JsonNode order = JSON.readTree(line);
            String name = order.get("name").asText();
            switch (order.get("do").asText()) {
                case "start" -> {
                    applications.put(name, new Application(name, order));
                    applications.get(name).start();
                }
                case "close" -> applications.get(name).close(order.get("leave").asBoolean());
                case "report" -> applications.get(name).report();
                default -> throw new IllegalArgumentException(line);
            }
        }
        applications.values().forEach(each -> each.close(true));
    }

    private static List<String> words(String text) {
        return List.of(text.split(" "));
    }

    /** The carrier and the hour of a flight's departure. */
    private static List<String> hour(String flight) {
        try {
            JsonNode told = JSON.readTree(flight);
            return List.of(told.get("carrier").asText() + "|" + told.get("hour").asText());
        } catch (IOException wrong) {
            throw new IllegalArgumentException(flight, wrong);
        }
    }

    /** One instance of an application: KafkaStreams, and a thread that looks at its tasks until it is closed. */
    private static final class Application extends Thread {
        private final KafkaStreams streams;
        private volatile boolean leaves;
        private volatile boolean closing;

        Application(String name, JsonNode order) {
            super(name);
            Properties config = new Properties();
            order.get("config").properties().forEach(each -> config.put(each.getKey(), each.getValue().asText()));
            streams = new KafkaStreams(topology(order), config);
            streams.setStateListener((now, before) -> say("state", Map.of("is", now.name())));
            streams.setUncaughtExceptionHandler(problem -> {
                problem.printStackTrace();
                say("failed", Map.of("why", problem.toString()));
                return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
            });
        }

        private Topology topology(JsonNode order) {
            Function<String, List<String>> splitter = SPLITTERS.get(order.get("splitter").asText());
            var builder = new StreamsBuilder();
            var words = Repartitioned.with(Serdes.String(), Serdes.String()).withName("words");
            builder.stream(order.get("source").asText(), Consumed.with(Serdes.String(), Serdes.String()))
                    .process(() -> new Splitter(this, splitter))
                    .repartition(words.withNumberOfPartitions(order.get("partitions").asInt()))
                    .processValues(() -> new Witness(this))
                    .groupByKey(Grouped.with(Serdes.String(), Serdes.String()))
                    .aggregate(
                            () -> "0",
                            (word, place, before) -> count(before) + 1 + " " + place,
                            Materialized.<String, String, KeyValueStore<Bytes, byte[]>>as("counts")
                                    .withKeySerde(Serdes.String())
                                    .withValueSerde(Serdes.String()))
                    .toStream()
                    .mapValues(Counters::count)
                    .to(order.get("sink").asText(), Produced.with(Serdes.String(), Serdes.Long()));
            return builder.build();
        }

        @Override
        public void run() {
            streams.start();
            Object before = null;
            while (!closing) {
                Object now = tasks();
                if (!now.equals(before)) {
                    say("tasks", Map.of("threads", now));
                    before = now;
                }
                try {
                    Thread.sleep(20);
                } catch (InterruptedException woken) {
                    continue; // it is to close
                }
            }
            boolean ended = streams.close(new KafkaStreams.CloseOptions().timeout(Duration.ofSeconds(30)).leaveGroup(leaves));
            say(ended ? "closed" : "failed", ended ? Map.of() : Map.of("why", "it does not close"));
        }

        void close(boolean leave) {
            leaves = leave;
            closing = true;
            interrupt();
        }

        private Object tasks() {
            Map<String, Object> threads = new TreeMap<>();
            for (ThreadMetadata each : streams.metadataForLocalThreads()) {
                var active = ids(each.activeTasks());
                threads.put(each.threadName(), Map.of("state", each.threadState(), "active", active, "standby", ids(each.standbyTasks())));
            }
            return threads;
        }

        private static TreeSet<String> ids(Set<TaskMetadata> tasks) {
            TreeSet<String> ids = new TreeSet<>();
            tasks.forEach(each -> ids.add(each.taskId().toString()));
            return ids;
        }

        /** Which instance has which partitions, as the leader has told everybody. */
        void report() {
            Map<String, Object> hosts = new TreeMap<>();
            for (StreamsMetadata each : streams.metadataForAllStreamsClients()) {
                var active = names(each.topicPartitions());
                hosts.put(each.host() + ":" + each.port(), Map.of("active", active, "standby", names(each.standbyTopicPartitions())));
            }
            say("report", Map.of("hosts", hosts));
        }

        private static TreeSet<String> names(Set<TopicPartition> partitions) {
            TreeSet<String> names = new TreeSet<>();
            partitions.forEach(each -> names.add(each.toString()));
            return names;
        }

        void took(RecordMetadata record, String place) {
            var where = Map.of("topic", record.topic(), "partition", record.partition(), "offset", record.offset());
            Map<String, Object> what = new TreeMap<>(where);
            what.put("place", place);
            say("took", what);
        }

        void say(String event, Map<String, Object> what) {
            Map<String, Object> line = new LinkedHashMap<>();
            line.put("name", getName());
            line.put("at", System.currentTimeMillis());
            line.put("event", event);
            line.putAll(what);
            try {
                String text = JSON.writeValueAsString(line);
                synchronized (OUT) {
                    OUT.println(text);
                    OUT.flush();
                }
            } catch (IOException impossible) {
                throw new IllegalStateException(impossible);
            }
        }
    }

    private static long count(String value) {
        return Long.parseLong(value.split(" ")[0]);
    }

    /** Makes words of a record, each with the place that it came from. */
    private static final class Splitter extends ContextualProcessor<String, String, String, String> {
        private final Application application;
        private final Function<String, List<String>> splitter;

        Splitter(Application application, Function<String, List<String>> splitter) {
            this.application = application;
            this.splitter = splitter;
        }

        @Override
        public void process(Record<String, String> record) {
            RecordMetadata from = context().recordMetadata().orElseThrow();
            String place = from.topic() + "-" + from.partition() + "@" + from.offset();
            application.took(from, place);
            int number = 0;
            for (String word : splitter.apply(record.value())) {
                context().forward(record.withKey(word).withValue(place + "#" + number++));
            }
        }
    }

    /** Tells of each word that comes back from the repartition topic. */
    private static final class Witness extends ContextualFixedKeyProcessor<String, String, String> {
        private final Application application;

        Witness(Application application) {
            this.application = application;
        }

        @Override
        public void process(FixedKeyRecord<String, String> record) {
            application.took(context().recordMetadata().orElseThrow(), record.value());
            context().forward(record);
        }
    }
}
