// The stream of the broker, its figures, dark and light, and what operators may do.
import { $, act, number, text } from "./page.js";
import { fly, net, redraw } from "./map.js";
import { forget, happened, list, showAlarms, showBrokers } from "./tables.js";
const SPARK = 60;
const rates = { in: [], out: [] };
let before = null;

function setState(words, bad) { text($("state"), words); $("state").classList.toggle("bad", bad); }
function rate(name, value) {
  text($(`t-${name}`), number(value));
  const points = rates[name];
  points.push(value); if (points.length > SPARK) points.shift();
  const most = Math.max(1, ...points);
  $(`s-${name}`).firstElementChild.setAttribute("points", points.map((one, at) => `${SPARK - points.length + at},${15 - (14 * one) / most}`).join(" "));
}
function showStatus(now) {
  const seen = performance.now();
  if (before) {
    const seconds = Math.max(0.2, (seen - before.seen) / 1000);
    rate("in", Math.max(0, (now.counts.published - before.counts.published) / seconds));
    rate("out", Math.max(0, (now.counts.delivered - before.counts.delivered) / seconds));
  }
  before = { seen, counts: now.counts };
  net.status = now;
  text($("t-clients"), number(now.connections)); text($("t-sessions"), number(now.sessions)); text($("t-copies"), number(now.copies));
  text($("t-stored"), number(now.stored_events)); text($("t-handoffs"), number(now.handoffs));
  text($("t-delay"), now.handoff_mean_s === null ? "–" : (now.handoff_mean_s * 1000).toFixed(1));
  text($("t-dropped"), number(now.counts.dropped));
  const down = now.links.filter((link) => !link.is_up).map((link) => link.peer);
  const words = [now.status === "ok" ? "live" : now.status, now.scheme, `roamq ${now.version}`];
  if (now.reason) words.push(now.reason);
  if (down.length) words.push(`link down: ${down.join(", ")}`);
  setState(words.join(" · "), now.status !== "ok" || down.length > 0);
  showAlarms(now.alarms); showBrokers();
}
function theme(name) {
  document.documentElement.dataset.theme = name;
  $("theme").setAttribute("aria-pressed", String(name === "dark")); text($("theme"), name === "dark" ? "Light" : "Dark"); redraw();
}
theme(localStorage.getItem("roamq-theme") || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"));
$("theme").addEventListener("click", () => { const name = document.documentElement.dataset.theme === "dark" ? "light" : "dark"; localStorage.setItem("roamq-theme", name); theme(name); });
for (const button of document.querySelectorAll("[data-act]")) button.addEventListener("click", () => act(`/api/${button.dataset.act}`, button.dataset.ask, button.textContent));

const stream = new EventSource("/console/stream");
stream.addEventListener("hello", (event) => {
  const data = JSON.parse(event.data);
  Object.assign(net, { places: data.network.places, links: data.network.links, me: data.network.asked, mayAct: data.may_act });
  before = null; forget();
  text($("broker"), net.me); document.title = `RoamQ ${net.me}`;
  $("acts").hidden = !data.may_act; $("reader").hidden = data.may_act;
  showStatus(data.status); happened(data.events); redraw(); list("");
});
stream.addEventListener("change", (event) => {
  const data = JSON.parse(event.data);
  if (data.network) Object.assign(net, { places: data.network.places, links: data.network.links });
  for (const place of net.places) place.clients = data.places[place.broker] || 0;
  fly(data.moves, data.moved); showStatus(data.status); happened(data.events); redraw();
});
stream.onerror = () => setState(`${net.me || "the broker"} does not answer; trying again`, true);
