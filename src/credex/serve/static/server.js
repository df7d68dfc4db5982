// Requests to the server, and the stream of a job's progress.

/** Ask for JSON; an error has the server's own words. */
export async function ask(path, { method = "GET", body } = {}) {
  const headers = { "X-Credex": "1" };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(path, { method, headers, body: body && JSON.stringify(body) });
  } catch {
    throw new Error("The server does not answer. Was it stopped?");
  }
  if (answer.status === 204) return null;
  const text = await answer.text();
  let said = null;
  try {
    said = JSON.parse(text);
  } catch {
    if (answer.ok) throw new Error("The server’s answer cannot be read.");
  }
  if (answer.ok) return said;
  const error = new Error(said?.error ?? text.slice(0, 300));
  error.field = said?.field;
  throw error;
}

/**
 * Watch a job: `onProgress` is told of everything that changes, the last time with `ended`.
 * Returns a function that ends watching.
 */
export function watch(job, onProgress) {
  const source = new EventSource(`/api/jobs/${encodeURIComponent(job)}/events`);
  source.onmessage = (event) => {
    const progress = JSON.parse(event.data);
    progress.ended = ["done", "stopped", "failed"].includes(progress.status);
    if (progress.ended) source.close();
    onProgress(progress);
  };
  source.onerror = () => {
    if (source.readyState !== EventSource.CLOSED) return; // it tries again by itself
    const message = "The connection to the server was lost.";
    onProgress({ status: "failed", ended: true, message, trace: [], explanation: null });
  };
  return () => source.close();
}
