// Requests to the server; a newer request to the same path cancels the older one.

const latest = new Map();

// The server's refusal: a sentence, the field at fault, and the sentence without the field.
export class Refused extends Error {
  constructor(detail, field = null, reason = null) {
    super(detail);
    Object.assign(this, { field, reason });
  }
}

async function reply(response) {
  if (response.ok) return response;
  const text = await response.text();
  let refusal;
  try { refusal = JSON.parse(text); } catch { refusal = { detail: text }; }
  throw new Refused(refusal.detail || `${response.status} ${response.statusText}`, refusal.field, refusal.reason);
}

function post(path, body, signal) {
  return fetch(path, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
    signal,
  });
}

// Returns null if a newer request to the same path was made in the meantime.
export async function ask(path, body) {
  latest.get(path)?.abort();
  const mine = new AbortController();
  latest.set(path, mine);
  try {
    const response = await reply(await post(path, body, mine.signal));
    const answer = await response.json();
    return latest.get(path) === mine ? answer : null;
  } catch (error) {
    if (error.name === "AbortError" || latest.get(path) !== mine) return null;
    throw error;
  }
}

// Cancels the last request to a path.
export function drop(path) {
  latest.get(path)?.abort();
  latest.delete(path);
}

// Cancels all requests.
export function forget() {
  for (const controller of latest.values()) controller.abort();
  latest.clear();
}

// Saves the file and returns the server's warning, usually empty.
export async function download(body) {
  const response = await reply(await post("/api/plan", body));
  const name = /filename="([^"]+)"/.exec(response.headers.get("Content-Disposition"))?.[1] ?? "plan";
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await response.blob());
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
  return response.headers.get("Batchlaw-Warning") ?? "";
}

export async function startCheck(body) {
  return (await (await reply(await post("/api/checks", body))).json()).id;
}

export async function readCheck(id) {
  return (await reply(await fetch(`/api/checks/${id}`))).json();
}

export function stopCheck(id) {
  return fetch(`/api/checks/${id}`, { method: "DELETE", keepalive: true });
}

export async function schema() {
  const description = await (await reply(await fetch("/api/openapi.json"))).json();
  return description.components.schemas;
}
