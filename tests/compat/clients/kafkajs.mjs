// kafkajs as a driven client.
import { Kafka, Partitioners } from "kafkajs";
import { play, share, options } from "./lines.mjs";

const kafka = new Kafka({
  clientId: options.name,
  brokers: [options.bootstrap],
  logCreator: () => (entry) => process.stderr.write(`${JSON.stringify(entry)}\n`),
});
let consumer;

await play({
  async produce(partitions) {
    const producer = kafka.producer({ createPartitioner: Partitioners.DefaultPartitioner });
    await producer.connect();
    const messages = partitions.map((partition) => ({ partition, value: "x" }));
    const sent = await producer.send({ topic: options.topic, messages });
    await producer.disconnect();
    return sent.flatMap(({ partition, baseOffset }) =>
      partitions.filter((each) => each === partition).map((each, place) => [each, Number(baseOffset) + place]),
    );
  },
  async join() {
    consumer = kafka.consumer({
      groupId: options.group,
      sessionTimeout: options.session_ms,
      heartbeatInterval: options.heartbeat_ms,
      maxWaitTimeInMs: 200, // it sends heartbeats between two fetches
    });
    consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => share.owns(payload.memberAssignment[options.topic] ?? []));
    consumer.on(consumer.events.REBALANCING, () => share.owns([]));
    await consumer.connect();
    await consumer.subscribe({ topic: options.topic, fromBeginning: true });
    await consumer.run({
      autoCommit: false,
      eachMessage: async ({ partition, message }) => share.read(partition, Number(message.offset)),
    });
  },
  commit: (places) =>
    consumer.commitOffsets(places.map(([partition, place]) => ({ topic: options.topic, partition, offset: `${place}` }))),
  leave: () => consumer.disconnect(),
});
