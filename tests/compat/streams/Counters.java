import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.function.Function;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Repartitioned;
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

    /** What is made of a record. */
    interface Making<V> {
        List<KeyValue<String, V>> of(String topic, int partition, long offset, V value);
    }

    /** What is told of a record. */
    interface Telling<V> {
        void of(String topic, int partition, long offset, V value);
    }

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
            var text = Consumed.with(Serdes.String(), Serdes.String());
            KStream<String, String> records = builder.stream(order.get("source").asText(), text);
            var between = Repartitioned.with(Serdes.String(), Serdes.String()).withName("words");
            KStream<String, String> words = Release.flatMap(records, (topic, partition, offset, value) -> {
                        String place = topic + "-" + partition + "@" + offset;
                        took(topic, partition, offset, place);
                        List<KeyValue<String, String>> found = new ArrayList<>();
                        splitter.apply(value).forEach(word -> found.add(KeyValue.pair(word, place + "#" + found.size())));
                        return found;
                    })
                    .repartition(between.withNumberOfPartitions(order.get("partitions").asInt()));
            Release.peek(words, this::took)
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
                Object now = Release.threads(streams);
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
            boolean ended = Release.close(streams, leaves);
            say(ended ? "closed" : "failed", ended ? Map.of() : Map.of("why", "it does not close"));
        }

        void close(boolean leave) {
            leaves = leave;
            closing = true;
            interrupt();
        }

        /** Which instance has which partitions, as the leader has told everybody. */
        void report() {
            say("report", Map.of("hosts", Release.hosts(streams)));
        }

        private void took(String topic, int partition, long offset, String place) {
            Map<String, Object> what = new TreeMap<>(Map.of("topic", topic, "partition", partition, "offset", offset));
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
}
