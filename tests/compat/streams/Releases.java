import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.RebalanceProtocol;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.processor.internals.StreamsPartitionAssignor;
import org.apache.kafka.streams.processor.internals.assignment.AssignorConfiguration;
import org.apache.kafka.streams.processor.internals.assignment.ReferenceContainer;
import org.apache.kafka.streams.processor.internals.assignment.StreamsAssignmentProtocolVersions;

/**
 * Prints each value of upgrade.from that this release of Kafka Streams accepts, null first, with the metadata version of a new
 * member's subscription, and EAGER or COOPERATIVE. Classes differ from release to release, so some are asked by reflection.
 */
public class Releases {
    public static void main(String[] arguments) throws Exception {
        for (String value : accepted()) System.out.println(value + " " + version(value) + " " + protocol(value));
    }

    /** The values that the setting's validator lists; it must accept each of them, and nothing else. */
    private static List<String> accepted() {
        ConfigDef.Validator validator = StreamsConfig.configDef().configKeys().get("upgrade.from").validator;
        List<String> values = new ArrayList<>();
        for (String listed : validator.toString().replaceAll("[\\[\\]]", "").split(", ")) {
            String value = listed.equals("null") ? null : listed;
            validator.ensureValid("upgrade.from", value);
            values.add(value);
        }
        try {
            validator.ensureValid("upgrade.from", "no release");
            throw new AssertionError("any value of upgrade.from is accepted");
        } catch (ConfigException refused) {
            return values;
        }
    }

    /** Since 4.0 no value lowers the version, and there is no such method. */
    private static int version(String upgradeFrom) throws Exception {
        int latest = StreamsAssignmentProtocolVersions.LATEST_SUPPORTED_VERSION;
        try {
            return (int) AssignorConfiguration.class.getMethod("configuredMetadataVersion", int.class).invoke(member(upgradeFrom), latest);
        } catch (NoSuchMethodException since40) {
            return latest;
        }
    }

    /** Since 4.0 an assignor that is not configured says what all do, and there is no such method. */
    private static RebalanceProtocol protocol(String upgradeFrom) throws Exception {
        try {
            return (RebalanceProtocol) AssignorConfiguration.class.getMethod("rebalanceProtocol").invoke(member(upgradeFrom));
        } catch (NoSuchMethodException since40) {
            List<RebalanceProtocol> supported = new StreamsPartitionAssignor().supportedProtocols();
            if (supported.size() != 1) throw new AssertionError("it may use any of " + supported);
            return supported.get(0);
        }
    }

    private static AssignorConfiguration member(String upgradeFrom) {
        Map<String, Object> config = new HashMap<>();
        config.put("application.id", "a");
        config.put("bootstrap.servers", "localhost:9092");
        config.put("client.id", "c");
        config.put(StreamsConfig.InternalConfig.REFERENCE_CONTAINER_PARTITION_ASSIGNOR, new ReferenceContainer());
        if (upgradeFrom != null) config.put("upgrade.from", upgradeFrom);
        return new AssignorConfiguration(config);
    }
}
