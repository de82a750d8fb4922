// Brokers, alarms, the ledger of handoffs, what happened, and pages of clients and sessions.
import { $, ago, ask, clock, counted, made, number, row, text, took } from "./page.js";
import { net } from "./map.js";
import { choose } from "./client.js";
const KEPT_MAX = 200, BARS = 60;
const MOVES = new Set(["handoff", "handed_over", "without_session"]);
let events = [], delays = [], next = null;

function link(client) { const button = made("button", client); button.type = "button"; button.addEventListener("click", () => choose(client)); return button; }
function linkState(known) { return known.through.length ? `up, through ${known.through.join(", ")}` : known.is_up ? "up" : "down"; }
export function showBrokers() {
  const body = $("brokers").tBodies[0], byPeer = new Map((net.status ? net.status.links : []).map((one) => [one.peer, one]));
  while (body.rows.length < net.places.length) body.append(row(["", "", "", ""]));
  while (body.rows.length > net.places.length) body.deleteRow(-1);
  net.places.forEach((place, at) => {
    const known = byPeer.get(place.broker), cells = body.rows[at].cells;
    text(cells[0], place.broker); text(cells[1], number(place.clients));
    text(cells[2], place.broker === net.me ? "this broker" : known ? linkState(known) : place.at.length ? `joined at ${place.at.join(", ")}` : "not linked");
    cells[2].className = known ? (known.is_up ? "good" : "bad") : "";
    text(cells[3], known ? counted(known.waiting_frames, "frame") : "–");
  });
  $("map").setAttribute("aria-label", "Brokers and their clients: " + net.places.map((p) => `${p.broker} ${p.clients}`).join(", "));
}
export function showAlarms(alarms) {
  const key = JSON.stringify(alarms.map((one) => [one.alarm, one.about, one.text]));
  if ($("alarms").dataset.key === key) return;
  $("alarms").dataset.key = key; $("alarms").hidden = !alarms.length;
  $("alarms").className = alarms.some((one) => one.level === "critical") ? "wide" : "wide warning";
  $("alarm-list").replaceChildren(...alarms.map((one) => { const item = made("li", made("b", one.level), one.level); item.append(`${one.text} (since ${clock(one.since)})`); return item; }));
}
export function forget() { events = []; delays = []; $("events").replaceChildren(); $("ledger").tBodies[0].replaceChildren(); $("ledger-text").hidden = false; }
// What is new goes on top, and what was there stays the same element: a click or the focus of a keyboard is not lost.
function add(list, items) {
  list.prepend(...items);
  while (list.childElementCount > KEPT_MAX) list.lastElementChild.remove();
}
export function happened(found) {
  if (!found.length) return;
  const newest = [...found].reverse(), moved = newest.filter((event) => MOVES.has(event.kind));
  events = [...newest, ...events].slice(0, KEPT_MAX);
  delays = [...delays, ...found.filter((event) => event.kind === "handoff").map((event) => event.fields.seconds)].slice(-BARS);
  add($("events"), newest.filter(isWanted).map(eventItem));
  add($("ledger").tBodies[0], moved.map(ledgerRow));
  if (moved.length) $("ledger-text").hidden = true;
  showDelays();
}
function ledgerRow(event) {
  const out = event.kind === "handed_over", fields = event.fields;
  const what = out ? "session handed over" : event.kind === "handoff" ? "client came here" : "let in without its session";
  return row([clock(event.time), link(event.client), out ? net.me : fields.previous, out ? fields.to : net.me, took(fields.seconds), number(fields.messages), what], "td", [4, 5]);
}
function eventItem(event) {
  const item = made("li", made("time", clock(event.time)), event.kind);
  item.append(event.text);
  return item;
}
function isWanted(event) { const kinds = $("kind").value; return !kinds || kinds.split(" ").includes(event.kind); }
function showDelays() {
  if (!delays.length) return;
  const longest = Math.max(...delays), sorted = [...delays].sort((a, b) => a - b), width = 300 / BARS, bars = document.createDocumentFragment();
  delays.forEach((seconds, at) => {
    const bar = document.createElementNS("http://www.w3.org/2000/svg", "rect"), high = Math.max(1, (seconds / longest) * 86);
    for (const [name, value] of Object.entries({ x: (BARS - delays.length + at) * width, y: 90 - high, width: width - 1, height: high })) bar.setAttribute(name, value);
    bars.append(bar);
  });
  $("delays").replaceChildren(bars);
  text($("delays-text"), `Last ${delays.length}: median ${took(sorted[Math.floor(sorted.length / 2)])}, longest ${took(longest)}. The newest is at the right.`);
}
const MODES = { serving: "connected", active: "away", copy: "elsewhere (a copy)" };
const COLUMNS = {
  sessions: [["client", (r) => link(r.client)], ["client is", (r) => MODES[r.mode] || r.mode], ["subscriptions", (r) => r.subscriptions], ["waiting", (r) => r.waiting], ["oldest", (r) => ago(r.oldest_s)]],
  clients: [["client", (r) => link(r.client)], ["user", (r) => r.user ?? "–"], ["address", (r) => r.address], ["protocol", (r) => r.protocol], ["connected", (r) => r.is_in ? ago(Date.now() / 1000 - r.connected_at) : "waits"], ["waiting", (r) => r.waiting + r.in_flight]],
};
export async function list(after) {
  const which = $("which").value, page = await ask(`/api/${which}?limit=50&after=${encodeURIComponent(after)}&search=${encodeURIComponent($("search").value)}`);
  if (!page) return;
  const columns = COLUMNS[which], found = page[which];
  $("rows").tHead.replaceChildren(row(columns.map((c) => c[0]), "th"));
  $("rows").tBodies[0].replaceChildren(...found.map((one) => row(columns.map((c) => c[1](one)))));
  text($("rows-text"), found.length ? `${number(found.length)} of ${number(page.total)} shown` : "none");
  next = page.next; $("more").hidden = next === null;
}
$("list").addEventListener("submit", (event) => { event.preventDefault(); list(""); });
$("which").addEventListener("change", () => list(""));
$("more").addEventListener("click", () => list(next));
$("kind").addEventListener("change", () => $("events").replaceChildren(...events.filter(isWanted).map(eventItem)));
