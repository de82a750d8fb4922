// One mqtt.js client loses its connection again and again and comes back by itself, wherever the URL leads.
// node returning.js VERSION URL TIMES
const mqtt = require("mqtt");

const [version, url, times] = process.argv.slice(2);
const protocolVersion = Number(version);
const expiry = protocolVersion === 5 ? { properties: { sessionExpiryInterval: 600 } } : {};
const topic = `returning/${version}`;

function once(emitter, event) {
  return new Promise((resolve) => emitter.once(event, resolve));
}

async function main() {
  const options = { protocolVersion, reconnectPeriod: 20 };
  const reader = mqtt.connect(url, { ...options, clientId: `back-${version}`, clean: false, ...expiry });
  const present = [];
  const received = [];
  reader.on("connect", (packet) => present.push(packet.sessionPresent));
  reader.on("message", (name, payload) => received.push(payload.toString()));
  await once(reader, "connect");
  await reader.subscribeAsync(topic, { qos: 2 });
  const writer = mqtt.connect(url, options);
  await once(writer, "connect");
  for (let number = 0; number < Number(times); number += 1) {
    const back = once(reader, "connect");
    reader.stream.destroy(); // without a word
    if (number % 2) writer.stream.destroy();
    await writer.publishAsync(topic, `${number}`, { qos: 1 + (number % 2) });
    await back;
  }
  const deadline = Date.now() + 60000;
  while (received.length < Number(times) && Date.now() < deadline) {
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  await reader.endAsync();
  await writer.endAsync();
  console.log(JSON.stringify({ present, received }));
}

main().then(
  () => process.exit(0),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
