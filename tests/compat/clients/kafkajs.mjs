// kafkajs as a driven client.
import { Kafka, Partitioners } from "kafkajs";
import { play, share, wish } from "./lines.mjs";

const kafka = new Kafka({
  clientId: wish.name,
  brokers: [wish.bootstrap],
  logCreator: () => (entry) => process.stderr.write(`${JSON.stringify(entry)}\n`),
});
let consumer;

await play({
  async produce(partitions) {
    const producer = kafka.producer({ createPartitioner: Partitioners.DefaultPartitioner });
    await producer.connect();
    const messages = partitions.map((partition) => ({ partition, value: "x" }));
    const sent = await producer.send({ topic: wish.topic, messages });
    await producer.disconnect();
    return sent.flatMap(({ partition, baseOffset }) =>
      partitions.filter((each) => each === partition).map((each, place) => [each, Number(baseOffset) + place]),
    );
  },
  async join() {
    consumer = kafka.consumer({
      groupId: wish.group,
      sessionTimeout: wish.session_ms,
      heartbeatInterval: wish.heartbeat_ms,
      maxWaitTimeInMs: 200, // it sends heartbeats between two fetches
    });
    consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => share.owns(payload.memberAssignment[wish.topic] ?? []));
    consumer.on(consumer.events.REBALANCING, () => share.owns([]));
    await consumer.connect();
    await consumer.subscribe({ topic: wish.topic, fromBeginning: true });
    await consumer.run({
      autoCommit: false,
      eachMessage: async ({ partition, message }) => share.read(partition, Number(message.offset)),
    });
  },
  commit: (places) =>
    consumer.commitOffsets(places.map(([partition, place]) => ({ topic: wish.topic, partition, offset: `${place}` }))),
  leave: () => consumer.disconnect(),
});
