// What lines.py says, for clients that run in Node: orders come on stdin, facts go to stdout, each a line of JSON.
import { createInterface } from "node:readline";

export const options = JSON.parse(process.argv[2]);

export function say(fact) {
  process.stdout.write(`${JSON.stringify(fact)}\n`);
}

// What a member owns and how far it has read there; the test is told of every change.
export const share = {
  positions: new Map(),
  owns(partitions) {
    const before = this.positions;
    this.positions = new Map(partitions.map((partition) => [partition, before.get(partition)]));
    say({ owned: [...partitions].sort((one, other) => one - other) });
  },
  read(partition, offset) {
    if (this.positions.has(partition)) this.positions.set(partition, offset + 1);
    say({ read: [partition, offset] });
  },
  readUpTo() {
    return [...this.positions].filter(([, place]) => place !== undefined).sort(([one], [other]) => one - other);
  },
};

// The client does what it is told, up to its leave. When nobody is left to give orders, this process is gone.
export async function play(client) {
  for await (const line of createInterface({ input: process.stdin })) {
    const order = JSON.parse(line);
    if (order.do === "produce") say({ produced: await client.produce(order.partitions) });
    if (order.do === "join") await client.join();
    if (order.do === "commit") {
      const places = share.readUpTo();
      await client.commit(places);
      say({ committed: places });
    }
    if (order.do === "leave") {
      await client.leave();
      say({ left: true });
      process.exit(0);
    }
  }
  process.exit(1);
}
