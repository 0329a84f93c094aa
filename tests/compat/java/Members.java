import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.MemberToRemove;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Consumers and producers of Kafka's own client, a thread each, that do what JSON lines on stdin say and tell on stdout what happens.
 *
 * <p>Asked: {"do": "join", name, topics or pattern, config}, {"do": "produce", name, topic, count, pause_ms, config}, {"do": "leave", name},
 * {"do": "remove", name, group, instance, config}: that static member, which need not be there to leave.
 * Told: {"name", "at" (ms), "event", ...}; the events are assigned, revoked and lost (partitions, owned, generation), read and
 * produced (records), committed (offsets), refused (why), failed (why) and closed. The end of stdin is the end of everybody.
 */
public final class Members {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final PrintStream OUT = new PrintStream(System.out, false, StandardCharsets.UTF_8);

    private Members() {}

    public static void main(String[] none) throws Exception {
        Map<String, Actor> actors = new HashMap<>();
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = orders.readLine(); line != null; line = orders.readLine()) {
            JsonNode order = JSON.readTree(line);
            String name = order.get("name").asText();
            switch (order.get("do").asText()) {
                case "join" -> actors.put(name, started(new Reader(name, order)));
                case "produce" -> actors.put(name, started(new Writer(name, order)));
                case "remove" -> actors.put(name, started(new Remover(name, order)));
                case "leave" -> actors.get(name).stopping = true;
                default -> throw new IllegalArgumentException(line);
            }
        }
        for (Actor actor : actors.values()) {
            actor.stopping = true;
        }
    }

    private static Actor started(Actor actor) {
        actor.start();
        return actor;
    }

    /** Somebody with a name who works until told to stop. */
    private abstract static class Actor extends Thread {
        final Properties config = new Properties();
        volatile boolean stopping;

        Actor(String name, JsonNode order) {
            super(name);
            order.get("config").properties().forEach(each -> config.put(each.getKey(), each.getValue().asText()));
        }

        abstract void work() throws Exception;

        @Override
        public void run() {
            try {
                work();
                say("closed", Map.of());
            } catch (Exception problem) {
                say("failed", Map.of("why", problem.toString()));
            }
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
            } catch (java.io.IOException impossible) {
                throw new IllegalStateException(impossible);
            }
        }
    }

    /** A member of a group: it commits what it has read, after every poll and before it gives a partition up. */
    private static final class Reader extends Actor implements ConsumerRebalanceListener {
        private final List<String> topics = new ArrayList<>();
        private final String pattern;
        private final TreeSet<String> owned = new TreeSet<>();
        private final Map<TopicPartition, OffsetAndMetadata> uncommitted = new HashMap<>();
        private KafkaConsumer<byte[], byte[]> consumer;

        Reader(String name, JsonNode order) {
            super(name, order);
            pattern = order.path("pattern").asText();
            order.get("topics").forEach(each -> topics.add(each.asText()));
        }

        @Override
        void work() {
            try (var opened = new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
                consumer = opened;
                if (pattern.isEmpty()) {
                    consumer.subscribe(topics, this);
                } else {
                    consumer.subscribe(new SubscriptionPattern(pattern), this);
                }
                while (!stopping) {
                    List<Object> records = new ArrayList<>();
                    for (ConsumerRecord<byte[], byte[]> each : consumer.poll(Duration.ofMillis(50))) {
                        records.add(List.of(each.topic(), each.partition(), each.offset()));
                        uncommitted.put(new TopicPartition(each.topic(), each.partition()), new OffsetAndMetadata(each.offset() + 1));
                    }
                    if (!records.isEmpty()) {
                        say("read", Map.of("records", records));
                    }
                    commit();
                }
            }
        }

        private void commit() {
            if (uncommitted.isEmpty()) {
                return;
            }
            try {
                consumer.commitSync(uncommitted);
                List<Object> offsets = new ArrayList<>();
                uncommitted.forEach((place, each) -> offsets.add(List.of(place.topic(), place.partition(), each.offset())));
                say("committed", Map.of("offsets", offsets));
                uncommitted.clear();
            } catch (KafkaException refused) { // while the group rebalances: what is still owned afterwards is committed then
                say("refused", Map.of("why", refused.toString()));
            }
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            owned.addAll(named(partitions));
            tell("assigned", partitions);
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            commit();
            giveUp("revoked", partitions);
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            giveUp("lost", partitions);
        }

        private void giveUp(String event, Collection<TopicPartition> partitions) {
            uncommitted.keySet().removeAll(partitions);
            owned.removeAll(named(partitions));
            tell(event, partitions);
        }

        private void tell(String event, Collection<TopicPartition> partitions) {
            Map<String, Object> what = new TreeMap<>();
            what.put("partitions", named(partitions));
            what.put("owned", owned);
            what.put("generation", consumer.groupMetadata().generationId());
            say(event, what);
        }

        private static TreeSet<String> named(Collection<TopicPartition> partitions) {
            TreeSet<String> names = new TreeSet<>();
            partitions.forEach(each -> names.add(each.toString()));
            return names;
        }
    }

    /** A producer: `count` records, or until told to stop if that is negative. */
    private static final class Writer extends Actor {
        private final String topic;
        private final int count;
        private final int pauseMs;

        Writer(String name, JsonNode order) {
            super(name, order);
            topic = order.get("topic").asText();
            count = order.get("count").asInt();
            pauseMs = order.get("pause_ms").asInt();
        }

        @Override
        void work() throws Exception {
            try (var producer = new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer())) {
                List<Future<RecordMetadata>> sent = new ArrayList<>();
                for (int number = 0; number != count && !stopping; number++) {
                    byte[] key = Integer.toString(number).getBytes(StandardCharsets.UTF_8);
                    sent.add(producer.send(new ProducerRecord<>(topic, key, key)));
                    if (pauseMs > 0) {
                        Thread.sleep(pauseMs);
                    }
                }
                producer.flush();
                List<Object> records = new ArrayList<>();
                for (Future<RecordMetadata> each : sent) {
                    records.add(List.of(each.get().topic(), each.get().partition(), each.get().offset()));
                }
                say("produced", Map.of("records", records));
            }
        }
    }

    /** An admin who takes a static member out of its group. */
    private static final class Remover extends Actor {
        private final String group;
        private final String instance;

        Remover(String name, JsonNode order) {
            super(name, order);
            group = order.get("group").asText();
            instance = order.get("instance").asText();
        }

        @Override
        void work() throws Exception {
            try (Admin admin = Admin.create(config)) {
                var options = new RemoveMembersFromConsumerGroupOptions(List.of(new MemberToRemove(instance)));
                admin.removeMembersFromConsumerGroup(group, options).all().get();
            }
        }
    }
}
