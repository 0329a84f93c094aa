import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.TreeSet;

import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/**
 * Kafka's own assignors, asked by lines on stdin and answering by lines on stdout. Bytes are in hex, "-" is null or nothing.
 *
 * topic NAME COUNT [RACKS]      the cluster has it; RACKS: for each partition "a+b", split by ",", "." for none
 * member ID INSTANCE BLOB       the next group has a member with this subscription
 * assign NAME                   -> "given ID BLOB" for each member, then "done"; forgets the topics and members
 * told NAME GENERATION BLOB     -> "data BLOB": the user data after on_assignment(this assignment, generation)
 * say VERSION BLOB              -> "blob BLOB": the subscription read, and written by Java in that version
 */
public class Oracle {
    private static final HexFormat HEX = HexFormat.of();
    private final Map<String, List<PartitionInfo>> topics = new TreeMap<>();
    private final Map<String, Subscription> members = new HashMap<>();

    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        System.setOut(System.err); // whatever Kafka logs
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Oracle oracle = new Oracle();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            for (String answer : oracle.answer(line.split(" "))) out.println(answer);
            out.flush();
        }
    }

    private List<String> answer(String[] words) {
        switch (words[0]) {
            case "topic":
                topics.put(words[1], partitions(words[1], Integer.parseInt(words[2]), words.length > 3 ? words[3] : ""));
                return List.of();
            case "member":
                Subscription subscription = ConsumerProtocol.deserializeSubscription(bytes(words[3]));
                if (!words[2].equals("-")) subscription.setGroupInstanceId(Optional.of(words[2]));
                members.put(words[1], subscription);
                return List.of();
            case "assign":
                return assign(words[1]);
            case "told":
                return told(assignor(words[1]), Integer.parseInt(words[2]), ConsumerProtocol.deserializeAssignment(bytes(words[3])));
            case "say":
                Subscription said = ConsumerProtocol.deserializeSubscription(bytes(words[2]));
                return List.of("blob " + hex(ConsumerProtocol.serializeSubscription(said, Short.parseShort(words[1]))));
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    @SuppressWarnings("removal") // there is no other way yet to say the generation
    private static List<String> told(ConsumerPartitionAssignor assignor, int generation, Assignment given) {
        assignor.onAssignment(given, new ConsumerGroupMetadata("g", generation, "m", Optional.empty()));
        return List.of("data " + hex(assignor.subscriptionUserData(new TreeSet<>())));
    }

    private List<String> assign(String name) {
        List<PartitionInfo> all = new ArrayList<>();
        topics.values().forEach(all::addAll);
        Cluster cluster = new Cluster("c", Collections.emptyList(), all, Collections.emptySet(), Collections.emptySet());
        Map<String, Assignment> given = assignor(name).assign(cluster, new GroupSubscription(members)).groupAssignment();
        List<String> answer = new ArrayList<>();
        given.forEach((member, share) -> answer.add("given " + member + " " + hex(ConsumerProtocol.serializeAssignment(share))));
        answer.add("done");
        topics.clear();
        members.clear();
        return answer;
    }

    private static List<PartitionInfo> partitions(String topic, int count, String racks) {
        String[] each = racks.isEmpty() ? new String[0] : racks.split(",");
        List<PartitionInfo> partitions = new ArrayList<>();
        for (int number = 0; number < count; number++) {
            String[] near = number < each.length && !each[number].equals(".") ? each[number].split("\\+") : new String[0];
            Node[] replicas = Arrays.stream(near).map(rack -> new Node(rack.hashCode(), "h", 1, rack)).toArray(Node[]::new);
            partitions.add(new PartitionInfo(topic, number, Node.noNode(), replicas, replicas));
        }
        return partitions;
    }

    private static ConsumerPartitionAssignor assignor(String name) {
        switch (name) {
            case "range": return new RangeAssignor();
            case "roundrobin": return new RoundRobinAssignor();
            case "sticky": return new StickyAssignor();
            case "cooperative-sticky": return new CooperativeStickyAssignor();
            default: throw new IllegalArgumentException(name);
        }
    }

    private static ByteBuffer bytes(String hex) {
        return ByteBuffer.wrap(HEX.parseHex(hex));
    }

    private static String hex(ByteBuffer buffer) {
        if (buffer == null) return "-";
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return HEX.formatHex(bytes);
    }
}
