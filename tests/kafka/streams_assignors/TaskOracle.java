import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.UUID;

import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.assignment.AssignmentConfigs;
import org.apache.kafka.streams.processor.assignment.ProcessId;
import org.apache.kafka.streams.processor.internals.assignment.ClientState;
import org.apache.kafka.streams.processor.internals.assignment.FallbackPriorTaskAssignor;
import org.apache.kafka.streams.processor.internals.assignment.HighAvailabilityTaskAssignor;
import org.apache.kafka.streams.processor.internals.assignment.LegacyStickyTaskAssignor;
import org.apache.kafka.streams.processor.internals.assignment.LegacyTaskAssignor;
import org.apache.kafka.streams.processor.internals.assignment.RackAwareTaskAssignor;

/**
 * Kafka Streams' own task assignors, asked by lines on stdin and answering by lines on stdout. Tasks and processes are numbers.
 *
 * tasks SUBTOPOLOGY:PARTITION:STATEFUL:END ...    the tasks of the next question; STATEFUL 0 or 1
 * process CONSUMERS TAGS TASK:LAG:RUNS ...         one more process; TAGS "name=value,..." or "-"; RUNS 0 or 1
 * assign NAME STANDBYS LAG WARMUPS TAGS TIMES      -> "active PROCESS ...", "standby PROCESS:TASK ...", "probes 0 or 1", "ns EACH ...";
 *                                                  forgets tasks and processes. TAGS "name,..." or "-"
 */
public class TaskOracle {
    private static final long RUNNING = -2; // in place of a lag
    private final List<TaskId> tasks = new ArrayList<>();
    private final Map<TaskId, Long> ends = new TreeMap<>(); // of those with state
    private final Map<ProcessId, ClientState> processes = new TreeMap<>();

    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        System.setOut(System.err); // whatever Kafka logs
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        TaskOracle oracle = new TaskOracle();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            for (String answer : oracle.answer(line.split(" "))) out.println(answer);
            out.flush();
        }
    }

    private List<String> answer(String[] words) {
        switch (words[0]) {
            case "tasks":
                for (int at = 1; at < words.length; at++) addTask(words[at].split(":"));
                return List.of();
            case "process":
                addProcess(words);
                return List.of();
            case "assign":
                return assign(words);
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    private void addTask(String[] task) {
        TaskId id = new TaskId(Integer.parseInt(task[0]), Integer.parseInt(task[1]));
        tasks.add(id);
        if (task[2].equals("1")) ends.put(id, Long.parseLong(task[3]));
    }

    private void addProcess(String[] words) {
        Map<TaskId, Long> lags = new TreeMap<>(ends);
        Set<TaskId> active = new TreeSet<>();
        Set<TaskId> standby = new TreeSet<>();
        for (int at = 3; at < words.length; at++) {
            String[] row = words[at].split(":");
            TaskId id = tasks.get(Integer.parseInt(row[0]));
            boolean runs = row[2].equals("1");
            (runs ? active : standby).add(id);
            if (ends.containsKey(id)) lags.put(id, runs ? RUNNING : Long.parseLong(row[1]));
        }
        Map<String, String> tags = new HashMap<>();
        for (String tag : listed(words[2])) tags.put(tag.split("=")[0], tag.split("=")[1]);
        ProcessId id = new ProcessId(new UUID(0, processes.size()));
        processes.put(id, new ClientState(active, standby, lags, tags, Integer.parseInt(words[1]), id));
    }

    private List<String> assign(String[] words) {
        AssignmentConfigs configs = new AssignmentConfigs(Long.parseLong(words[3]), Integer.parseInt(words[4]),
            Integer.parseInt(words[2]), 60_000L, listed(words[5]), OptionalInt.empty(), OptionalInt.empty(), "none");
        List<String> spent = new ArrayList<>(List.of("ns"));
        List<String> answer = null;
        for (int times = Integer.parseInt(words[6]); times > 0; times--) {
            Map<ProcessId, ClientState> states = new TreeMap<>();
            processes.forEach((id, state) -> states.put(id, new ClientState(state)));
            RackAwareTaskAssignor racks = racks(configs);
            Set<TaskId> all = new TreeSet<>(tasks);
            Set<TaskId> stateful = new TreeSet<>(ends.keySet());
            LegacyTaskAssignor assignor = assignor(words[1]);
            long start = System.nanoTime();
            boolean probes = assignor.assign(states, all, stateful, racks, configs);
            spent.add(Long.toString(System.nanoTime() - start));
            answer = said(states, probes);
        }
        answer.add(String.join(" ", spent));
        tasks.clear();
        ends.clear();
        processes.clear();
        return answer;
    }

    private List<String> said(Map<ProcessId, ClientState> states, boolean probes) {
        Map<TaskId, Integer> number = new HashMap<>();
        for (TaskId task : tasks) number.put(task, number.size());
        String[] active = new String[tasks.size()];
        Arrays.fill(active, "-");
        List<String> standby = new ArrayList<>(List.of("standby"));
        int process = 0;
        for (ClientState state : states.values()) {
            for (TaskId task : state.activeTasks()) active[number.get(task)] = Integer.toString(process);
            for (TaskId task : state.standbyTasks()) standby.add(process + ":" + number.get(task));
            process++;
        }
        return new ArrayList<>(List.of("active " + String.join(" ", active), String.join(" ", standby), "probes " + (probes ? 1 : 0)));
    }

    private static RackAwareTaskAssignor racks(AssignmentConfigs configs) {
        Map<ProcessId, Map<String, Optional<String>>> none = new HashMap<>();
        return new RackAwareTaskAssignor(Cluster.empty(), Map.of(), Map.of(), Map.of(), none, null, configs, Time.SYSTEM);
    }

    private static LegacyTaskAssignor assignor(String name) {
        switch (name) {
            case "highavailability": return new HighAvailabilityTaskAssignor();
            case "sticky": return new LegacyStickyTaskAssignor();
            case "fallback": return new FallbackPriorTaskAssignor();
            default: throw new IllegalArgumentException(name);
        }
    }

    private static List<String> listed(String words) {
        return words.equals("-") ? List.of() : List.of(words.split(","));
    }
}
