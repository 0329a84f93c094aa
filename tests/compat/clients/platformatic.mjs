// @platformatic/kafka as a driven client.
import { Consumer, Producer, cooperativeStickyAssigner, roundRobinAssigner } from "@platformatic/kafka";
import { play, share, options } from "./lines.mjs";

const everybody = { clientId: options.name, bootstrapBrokers: [options.bootstrap] };
const assigners = { roundrobin: roundRobinAssigner, "cooperative-sticky": cooperativeStickyAssigner };
let consumer;

function membership() {
  if (options.strategy === "consumer") return { groupProtocol: "consumer" };
  return {
    sessionTimeout: options.session_ms,
    heartbeatInterval: options.heartbeat_ms,
    rebalanceTimeout: 60_000,
    protocols: [{ name: options.strategy, version: 1 }],
    partitionAssigner: assigners[options.strategy],
  };
}

function owned() {
  return (consumer.assignments ?? []).flatMap(({ partitions }) => partitions);
}

// It tells nobody of an assignment that comes with a heartbeat, so each heartbeat is looked at.
function ownsWhatItSays() {
  if (`${owned().sort()}` !== `${[...share.positions.keys()].sort()}`) share.owns(owned());
}

await play({
  async produce(partitions) {
    const producer = new Producer({ ...everybody, acks: -1 });
    const next = new Map();
    const messages = partitions.map((partition) => ({ topic: options.topic, partition, value: Buffer.from("x") }));
    const { offsets } = await producer.send({ messages });
    await producer.close();
    for (const { partition, offset } of offsets) next.set(partition, Number(offset));
    return partitions.map((partition) => {
      const place = next.get(partition);
      next.set(partition, place + 1);
      return [partition, place];
    });
  },
  async join() {
    const instance = options.instance ? { groupInstanceId: options.instance } : {};
    const patience = { retries: 30 }; // times a second: a broker may be away for longer than its own 3
    const group = { groupId: options.group, maxWaitTime: 200 };
    consumer = new Consumer({ ...everybody, ...membership(), ...instance, ...patience, ...group });
    consumer.on("consumer:group:join", () => share.owns(owned()));
    consumer.on("consumer:heartbeat:end", ownsWhatItSays);
    consumer.on("consumer:group:rebalance", ownsWhatItSays);
    consumer.on("error", (error) => console.error(error));
    const stream = await consumer.consume({
      topics: [options.topic],
      mode: "committed",
      fallbackMode: "earliest",
      autocommit: false,
    });
    stream.on("data", ({ partition, offset }) => share.read(partition, Number(offset)));
  },
  commit: (places) =>
    consumer.commit({
      offsets: places.map(([partition, place]) => ({
        topic: options.topic,
        partition,
        offset: BigInt(place),
        leaderEpoch: -1,
      })),
    }),
  leave: () => consumer.close(true),
});
