// The brokers and their clients. The page keeps counts, not clients: what is drawn is bounded.
import { $, counted, number, text } from "./page.js";
const DOTS_MAX = 150, FLYING_MAX = 300;
const still = matchMedia("(prefers-reduced-motion: reduce)");
export const net = { places: [], links: [], me: "", status: null, chosen: null };
let flying = [], drawing = false;

function layout(width, height) {
  const where = new Map(), { places } = net, edge = 74;
  if (places.length > 1 && places.every((p) => p.position)) {
    const ys = places.map((p) => p.position[0]), xs = places.map((p) => p.position[1]);
    const fit = (value, all, size, flip) => { const low = Math.min(...all), span = Math.max(...all) - low || 1; const part = (value - low) / span; return edge + (flip ? 1 - part : part) * (size - 2 * edge); };
    for (const p of places) where.set(p.broker, [fit(p.position[1], xs, width), fit(p.position[0], ys, height, true)]);
    return where;
  }
  const round = places.length > 1 ? 1 : 0;
  places.forEach((p, i) => {
    const angle = (2 * Math.PI * i) / places.length - Math.PI / 2;
    where.set(p.broker, [width / 2 + round * Math.min(width / 2 - edge, height * 0.75) * Math.cos(angle), height / 2 + round * (height / 2 - edge) * Math.sin(angle)]);
  });
  return where;
}
function draw() {
  const canvas = $("map"), scale = devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
  if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) { canvas.width = Math.round(width * scale); canvas.height = Math.round(height * scale); }
  const style = getComputedStyle(document.documentElement), colour = (name) => style.getPropertyValue(name).trim();
  const pen = canvas.getContext("2d");
  pen.setTransform(scale, 0, 0, scale, 0, 0); pen.clearRect(0, 0, width, height);
  const where = layout(width, height), up = new Map((net.status ? net.status.links : []).map((l) => [l.peer, l.is_up]));
  for (const [a, b] of net.links) {
    if (!where.has(a) || !where.has(b)) continue;
    const peer = a === net.me ? b : b === net.me ? a : null, isUp = peer === null ? null : up.get(peer);
    pen.strokeStyle = isUp === null ? colour("--line") : isUp ? colour("--soft") : colour("--bad");
    pen.setLineDash(isUp === false ? [7, 6] : []); pen.lineWidth = peer === null ? 1 : 1.8;
    pen.beginPath(); pen.moveTo(...where.get(a)); pen.lineTo(...where.get(b)); pen.stroke();
  }
  pen.setLineDash([]);
  for (const place of net.places) drawBroker(pen, colour, place, where.get(place.broker), up.get(place.broker) === false, height);
  if (net.chosen) drawChosen(pen, colour, where);
  const now = performance.now();
  flying = flying.filter((one) => now < one.end);
  pen.fillStyle = colour("--a");
  for (const one of flying) {
    const from = where.get(one.from), to = where.get(one.to);
    if (!from || !to || now < one.begin) continue;
    const part = (now - one.begin) / (one.end - one.begin), ease = part * part * (3 - 2 * part);
    const x = from[0] + (to[0] - from[0]) * ease, y = from[1] + (to[1] - from[1]) * ease + one.bend * Math.sin(Math.PI * part);
    pen.globalAlpha = 0.25; pen.beginPath(); pen.arc(x, y, 8, 0, 7); pen.fill();
    pen.globalAlpha = 1; pen.beginPath(); pen.arc(x, y, 4, 0, 7); pen.fill();
  }
  if (flying.length) requestAnimationFrame(draw); else drawing = false;
}
function drawBroker(pen, colour, place, [x, y], isDown, height) {
  const shown = Math.min(place.clients, DOTS_MAX), reach = 25 + 3.3 * Math.sqrt(shown + 1);
  pen.fillStyle = colour("--dot"); pen.globalAlpha = isDown ? 0.3 : 1; pen.beginPath();
  for (let i = 0; i < shown; i++) {
    const radius = 25 + 3.3 * Math.sqrt(i + 1), angle = i * 2.39996, px = x + radius * Math.cos(angle), py = y + radius * Math.sin(angle);
    pen.moveTo(px + 2.1, py); pen.arc(px, py, 2.1, 0, 7);
  }
  pen.fill();
  pen.globalAlpha = 1;
  pen.fillStyle = isDown ? colour("--bad-bg") : colour("--card"); pen.strokeStyle = isDown ? colour("--bad") : place.broker === net.me ? colour("--a") : colour("--soft"); pen.lineWidth = place.broker === net.me ? 3.5 : 1.8;
  pen.beginPath(); pen.arc(x, y, 22, 0, 7); pen.fill(); pen.stroke();
  pen.fillStyle = isDown ? colour("--bad") : colour("--ink"); pen.textAlign = "center"; pen.textBaseline = "middle"; pen.font = "600 13px system-ui, sans-serif"; pen.fillText(place.broker.length > 6 ? `${place.broker.slice(0, 5)}…` : place.broker, x, y);
  const words = isDown ? "not reachable" : counted(place.clients, "client"), below = y + reach + 13;
  pen.font = "12.5px system-ui, sans-serif"; pen.fillStyle = isDown ? colour("--bad") : colour("--soft"); pen.fillText(words, x, below + 8 > height ? y - reach - 11 : below);
}
// The chosen client: a ring around its broker, full lines to copies of its session, dashed ones to where it is expected.
function drawChosen(pen, colour, where) {
  const { client, broker, copies, expected } = net.chosen, at = where.get(broker);
  if (!at) return;
  const ring = ([x, y], name, width, dash) => { pen.strokeStyle = colour(name); pen.lineWidth = width; pen.setLineDash(dash); pen.beginPath(); pen.arc(x, y, 28, 0, 7); pen.stroke(); };
  for (const peer of new Set([...copies, ...expected])) if (where.has(peer)) ring(where.get(peer), "--copy", copies.includes(peer) ? 2.5 : 1.5, copies.includes(peer) ? [] : [3, 5]);
  ring(at, "--good", 3, []); pen.setLineDash([]);
  pen.font = "600 13px system-ui, sans-serif"; pen.textAlign = "center"; pen.textBaseline = "middle";
  const wide = pen.measureText(client).width + 14, y = Math.max(12, at[1] - 42);
  pen.fillStyle = colour("--good"); pen.beginPath(); pen.roundRect(at[0] - wide / 2, y - 10, wide, 20, 6); pen.fill();
  pen.fillStyle = colour("--card"); pen.fillText(client, at[0], y);
}
export function redraw() { if (!drawing) { drawing = true; requestAnimationFrame(draw); } }
export function fly(moves, moved) {
  const now = performance.now(), real = moves.filter((move) => move[1]);
  text($("moved"), moved ? `${number(moved)} came or moved in the last second` : "");
  if (!still.matches) for (const [, from, to] of real.slice(0, Math.max(0, FLYING_MAX - flying.length))) {
    const begin = now + Math.random() * 500;
    flying.push({ from, to, begin, end: begin + 900, bend: (Math.random() - 0.5) * 60 });
  }
}
addEventListener("resize", redraw);
