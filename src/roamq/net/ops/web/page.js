// What every part of the page uses.
export const $ = (id) => document.getElementById(id);
export function text(element, value) { if (element.textContent !== String(value)) element.textContent = value; }
export function number(value) { return value === null || value === undefined ? "–" : Math.round(value).toLocaleString("en"); }
export function counted(value, word) { return `${number(value)} ${word}${value === 1 ? "" : "s"}`; }
export function ago(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  return seconds < 90 ? `${Math.max(0, Math.round(seconds))} s` : seconds < 5400 ? `${Math.round(seconds / 60)} min` : seconds < 129600 ? `${(seconds / 3600).toFixed(1)} h` : `${(seconds / 86400).toFixed(1)} days`;
}
export function took(seconds) { return seconds === undefined ? "–" : seconds < 1 ? `${(seconds * 1000).toFixed(1)} ms` : `${seconds.toFixed(2)} s`; }
export function clock(seconds) { return new Date(seconds * 1000).toLocaleTimeString("en-GB"); }
export function made(tag, content, kind) {
  const element = document.createElement(tag);
  if (content instanceof Node) element.append(content); else element.textContent = content;
  if (kind) element.className = kind;
  return element;
}
export function row(values, tag = "td", numeric = []) {
  const line = document.createElement("tr");
  values.forEach((value, at) => { const cell = made(tag, value, numeric.includes(at) ? "num" : ""); if (tag === "th") cell.scope = "col"; line.append(cell); });
  return line;
}
export async function ask(path) {
  const answer = await fetch(path);
  if (answer.status === 401) { location.reload(); return null; }
  return answer.json();
}
let fading = 0;
export function toast(words) {
  text($("toast"), words); $("toast").classList.add("on");
  clearTimeout(fading); fading = setTimeout(() => $("toast").classList.remove("on"), 5000);
}
// Ask first, then act. The header shows that no other page sent this.
export function act(path, question, button) {
  text($("sure-text"), question); text($("sure-yes"), button);
  const dialog = $("sure");
  dialog.returnValue = "no";
  dialog.onclose = async () => {
    if (dialog.returnValue !== "yes") return;
    const answer = await fetch(path, { method: "POST", headers: { "X-RoamQ": "1" } });
    const said = await answer.json();
    toast(answer.ok ? `done: ${said.done}${Object.entries(said.details).map(([name, value]) => ` · ${name} ${value}`).join("")}` : `not done: ${said.error}`);
  };
  dialog.showModal();
}
