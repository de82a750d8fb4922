// One mqtt.js client vanishes at one broker and reappears at another; prints what it was told and what it got.
// node roaming.js VERSION FIRST_URL PUBLISHER_URL SECOND_URL
const mqtt = require("mqtt");

const [version, firstUrl, publisherUrl, secondUrl] = process.argv.slice(2);
const protocolVersion = Number(version);
const expiry = protocolVersion === 5 ? { properties: { sessionExpiryInterval: 600 } } : {};
const session = { clientId: `js-${version}`, clean: false, protocolVersion, reconnectPeriod: 0, ...expiry };
const topic = (name) => `js/${version}/${name}`;

function connected(client) {
  return new Promise((resolve, reject) => {
    client.once("connect", (packet) => resolve(packet.sessionPresent));
    client.once("error", reject);
  });
}

async function roam() {
  const first = mqtt.connect(firstUrl, session);
  const present = [await connected(first)];
  await first.subscribeAsync(topic("#"), { qos: 2 });
  first.stream.destroy(); // without a word

  const publisher = mqtt.connect(publisherUrl, { protocolVersion });
  await connected(publisher);
  for (const [number, qos] of [1, 1, 2, 2].entries()) {
    // mqtt.js hands over what came at QoS 2 when it is released, so behind QoS 1
    await publisher.publishAsync(topic(qos), `${number} at qos ${qos}`, { qos });
  }
  await publisher.endAsync();

  const second = mqtt.connect(secondUrl, session);
  const received = [];
  second.on("message", (name, payload) => received.push(payload.toString()));
  present.push(await connected(second));
  const deadline = Date.now() + 60000;
  while (received.length < 4 && Date.now() < deadline) {
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  await second.endAsync();
  console.log(JSON.stringify({ present, received }));
}

roam().then(
  () => process.exit(0),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
