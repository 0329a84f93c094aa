import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.function.Function;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.streams.internals.generated.SubscriptionInfoData;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.assignment.ProcessId;
import org.apache.kafka.streams.processor.internals.assignment.AssignmentInfo;
import org.apache.kafka.streams.processor.internals.assignment.SubscriptionInfo;
import org.apache.kafka.streams.state.HostInfo;

/**
 * Kafka Streams' own metadata classes, asked by lines of JSON on stdin and answering by lines of JSON on stdout.
 *
 * {"write": VALUE}                                  -> {"bytes": HEX, "ordered": HEX}
 * {"read": "subscription" | "assignment", "bytes": HEX}  -> {"value": VALUE}
 * and {"refused": SENTENCE} where Java throws. A VALUE is what tests/streams/metadata.py makes of ours; an assignment is the one
 * with "active". "ordered": the same bytes, with the entries in order that Java took from hash tables of its own.
 */
public class Metadata {
    private static final HexFormat HEX = HexFormat.of();
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        System.setOut(System.err); // whatever Kafka logs
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(JSON.writeValueAsString(answer(JSON.readTree(line))));
            out.flush();
        }
    }

    private static ObjectNode answer(JsonNode ask) {
        ObjectNode answer = JSON.createObjectNode();
        try {
            if (ask.has("write")) {
                JsonNode value = ask.get("write");
                ByteBuffer said = value.has("active") ? assignment(value).encode() : subscription(value).encode();
                answer.put("bytes", hex(said)).put("ordered", hex(value.has("active") ? said : ordered(said)));
            } else {
                ByteBuffer said = ByteBuffer.wrap(HEX.parseHex(ask.get("bytes").asText()));
                answer.set("value", ask.get("read").asText().equals("assignment") ? heardAssignment(said) : heardSubscription(said));
            }
        } catch (Exception refusal) {
            answer.put("refused", String.valueOf(refusal));
        }
        return answer;
    }

    private static SubscriptionInfo subscription(JsonNode value) {
        Map<TaskId, Long> sums = new LinkedHashMap<>();
        for (JsonNode row : value.get("offset_sums")) sums.put(task(row.get(0)), row.get(1).asLong());
        Map<String, String> tags = new LinkedHashMap<>();
        for (JsonNode row : value.get("tags")) tags.put(row.get(0).asText(), row.get(1).asText());
        ByteBuffer id = ByteBuffer.wrap(HEX.parseHex(value.get("process_id").asText()));
        return new SubscriptionInfo(
            value.get("used").asInt(), value.get("supported").asInt(), new ProcessId(new UUID(id.getLong(), id.getLong())),
            value.get("endpoint").asText(), sums, (byte) value.get("unique").asInt(), value.get("error").asInt(), tags);
    }

    private static AssignmentInfo assignment(JsonNode value) {
        List<TaskId> active = new ArrayList<>();
        for (JsonNode row : value.get("active")) active.add(task(row));
        AssignmentInfo made = new AssignmentInfo(
            value.get("used").asInt(), value.get("supported").asInt(), active,
            partitionsBy(value.get("standby"), Metadata::task),
            partitionsBy(value.get("active_hosts"), Metadata::host),
            partitionsBy(value.get("standby_hosts"), Metadata::host),
            value.get("error").asInt());
        if (!value.get("next_rebalance_ms").isNull()) made.setNextRebalanceTime(value.get("next_rebalance_ms").asLong());
        return made;
    }

    private static ObjectNode heardSubscription(ByteBuffer said) {
        SubscriptionInfo heard = SubscriptionInfo.decode(said);
        ObjectNode value = JSON.createObjectNode().put("used", heard.version()).put("supported", heard.latestSupportedVersion());
        UUID id = heard.processId().id();
        ByteBuffer process = ByteBuffer.allocate(16).putLong(id.getMostSignificantBits()).putLong(id.getLeastSignificantBits());
        value.put("process_id", HEX.formatHex(process.array()));
        value.put("endpoint", heard.userEndPoint() == null ? "" : heard.userEndPoint());
        ArrayNode sums = value.putArray("offset_sums"), tags = value.putArray("tags");
        heard.taskOffsetSums().forEach((task, sum) -> sums.addArray().add(row(task)).add(sum));
        heard.clientTags().forEach((key, tag) -> tags.addArray().add(key).add(tag));
        boolean isKnown = heard.version() <= SubscriptionInfoData.HIGHEST_SUPPORTED_VERSION;
        return value.put("unique", isKnown ? data(said).uniqueField() : 0).put("error", heard.errorCode());
    }

    private static ObjectNode heardAssignment(ByteBuffer said) {
        AssignmentInfo heard = AssignmentInfo.decode(said);
        ObjectNode value = JSON.createObjectNode().put("used", heard.version()).put("supported", heard.commonlySupportedVersion());
        ArrayNode active = value.putArray("active");
        heard.activeTasks().forEach(task -> active.add(row(task)));
        value.set("standby", rows(heard.standbyTasks(), Metadata::row));
        value.set("active_hosts", rows(heard.partitionsByHost(), Metadata::row));
        value.set("standby_hosts", rows(heard.standbyPartitionByHost(), Metadata::row));
        value.put("error", heard.errCode());
        return heard.nextRebalanceMs() == Long.MAX_VALUE
            ? value.putNull("next_rebalance_ms")
            : value.put("next_rebalance_ms", heard.nextRebalanceMs());
    }

    /** The subscription as Kafka's generated class says it, once its lists are in order. */
    private static ByteBuffer ordered(ByteBuffer said) {
        SubscriptionInfoData data = data(said);
        Comparator<SubscriptionInfoData.TaskId> byTask =
            Comparator.comparing(SubscriptionInfoData.TaskId::topicGroupId).thenComparing(SubscriptionInfoData.TaskId::partition);
        data.prevTasks().sort(byTask);
        data.standbyTasks().sort(byTask);
        data.taskOffsetSums().sort(Comparator.comparing(SubscriptionInfoData.TaskOffsetSum::topicGroupId)); // the rest is as it came
        return MessageUtil.toByteBufferAccessor(data, (short) data.version()).buffer();
    }

    private static SubscriptionInfoData data(ByteBuffer said) {
        said.rewind();
        SubscriptionInfoData data = new SubscriptionInfoData(new ByteBufferAccessor(said), (short) said.getInt(0));
        said.rewind();
        return data;
    }

    private static TaskId task(JsonNode row) {
        return new TaskId(row.get(0).asInt(), row.get(1).asInt(), row.get(2).isNull() ? null : row.get(2).asText());
    }

    private static HostInfo host(JsonNode row) {
        return new HostInfo(row.get(0).asText(), row.get(1).asInt());
    }

    private static <K> Map<K, Set<TopicPartition>> partitionsBy(JsonNode rows, Function<JsonNode, K> key) {
        Map<K, Set<TopicPartition>> made = new LinkedHashMap<>();
        for (JsonNode row : rows) {
            Set<TopicPartition> partitions = new LinkedHashSet<>();
            for (JsonNode each : row.get(1)) partitions.add(new TopicPartition(each.get(0).asText(), each.get(1).asInt()));
            made.put(key.apply(row.get(0)), partitions);
        }
        return made;
    }

    private static ArrayNode row(TaskId task) {
        return JSON.createArrayNode().add(task.subtopology()).add(task.partition()).add(task.topologyName());
    }

    private static ArrayNode row(HostInfo host) {
        return JSON.createArrayNode().add(host.host()).add(host.port());
    }

    private static <K> ArrayNode rows(Map<K, Set<TopicPartition>> all, Function<K, ArrayNode> key) {
        ArrayNode rows = JSON.createArrayNode();
        all.forEach((each, partitions) -> {
            ArrayNode said = rows.addArray().add(key.apply(each)).addArray();
            partitions.forEach(one -> said.addArray().add(one.topic()).add(one.partition()));
        });
        return rows;
    }

    private static String hex(ByteBuffer said) {
        said.rewind();
        byte[] bytes = new byte[said.remaining()];
        said.get(bytes);
        said.rewind();
        return HEX.formatHex(bytes);
    }
}
