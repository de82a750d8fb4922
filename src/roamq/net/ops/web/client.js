// The chosen client: where it is, what waits, copies of its session, where it is expected; kick.
import { $, act, ago, ask, counted, made, text } from "./page.js";
import { net, redraw } from "./map.js";
const EVERY_MS = 2000;
let chosen = null, timer = 0;

function chips(names, kind) { const box = document.createElement("span"); box.append(...names.map((name) => made("span", name, `chip ${kind}`))); return box; }
async function look() {
  clearTimeout(timer);
  if (chosen === null) return;
  const asked = chosen, found = await ask(`/api/where/${encodeURIComponent(asked)}`).catch(() => null);
  if (chosen !== asked) return;
  timer = setTimeout(look, EVERY_MS);
  if (found) show(found);
}
function show(found) {
  const now = Date.now() / 1000, facts = [], session = found.session;
  text($("found"), !found.broker ? `${found.client} is not known here` : found.is_connected ? `${found.client} is connected here` : `${found.client}: newest connection at ${found.broker}`);
  if (found.broker) facts.push(["last connected", `at ${found.broker}, ${ago(now - found.since)} ago`]);
  if (found.home) facts.push(["first broker", found.home]);
  if (found.connection) facts.push(["user", found.connection.user ?? "none"], ["from", `${found.connection.address}, ${found.connection.protocol}`]);
  if (session) facts.push(["session here", { serving: "connected", active: "kept while it is away", copy: "a copy waits here, in case it comes" }[session.mode] || session.mode], ["waiting", `${counted(session.waiting, "message")}${session.oldest_s === null ? "" : `, the oldest for ${ago(session.oldest_s)}`}`]);
  if (found.subscriptions.length) facts.push(["subscribed to", found.subscriptions.slice(0, 20).join(", ")]);
  const isMine = session && ["serving", "active"].includes(session.mode);
  if (isMine) facts.push(["copies at", found.copies.length ? chips(found.copies, "copy") : "no other broker"], ["expected next at", found.expected.length ? chips(found.expected, "next") : "no prediction"]);
  $("facts").replaceChildren(...facts.flatMap(([name, value]) => [made("dt", name), made("dd", value)]));
  $("facts").hidden = !facts.length;
  $("client-acts").hidden = !(net.mayAct && found.is_connected);
  net.chosen = found.broker ? { client: found.client, broker: found.broker, copies: isMine ? found.copies : session ? [net.me] : [], expected: isMine ? found.expected : [] } : null;
  text($("map-chosen"), net.chosen ? `Green ring: where ${found.client} is. Violet: copies of its session; dotted: expected there.` : "");
  redraw();
}
export function choose(client) { chosen = client; $("who").value = client; look(); $("found").scrollIntoView({ block: "nearest" }); }
$("where").addEventListener("submit", (event) => { event.preventDefault(); choose($("who").value); });
$("kick").addEventListener("click", () => act(`/api/kick/${encodeURIComponent(chosen)}`, `End the connection of ${chosen}? Its session stays, and it may connect again.`, "Kick"));
addEventListener("keydown", (event) => { if (event.key === "/" && !["INPUT", "SELECT"].includes(document.activeElement.tagName)) { event.preventDefault(); $("who").focus(); } });
