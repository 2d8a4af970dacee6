// The API of the same address, asked with the key, else with the session of this browser, if it has
// one. What goes wrong is a Failure in words.

const LONGEST_MS = 15_000;

/** An answer that is none; `status` is 0 where nothing answered. `message` is for people. */
export class Failure extends Error {
  constructor(status, code, detail, { retryAfterMs = null, title = "", data = null } = {}) {
    super(title ? `${title}: ${detail}` : detail);
    this.name = "Failure";
    this.status = status;
    this.code = code;
    this.detail = detail;
    this.retryAfterMs = retryAfterMs;
    this.data = data; // JSON that came with it and is no problem: health has some
  }

  /** Whether another key is what is needed. */
  get isAboutKey() {
    return ["key_missing", "key_malformed", "key_unknown", "key_revoked"].includes(this.code);
  }
}

/** The caller's own signal ended it: no failure to report. */
export function isAbort(error) {
  return error instanceof DOMException && error.name === "AbortError";
}

/**
 * Return `{get, blob, post}`. `key()` gives the key of now, or null; `onKeyRefused(failure)` hears when it
 * was not taken.
 */
export function createApi({ key, onKeyRefused = () => {}, fetcher = (...all) => fetch(...all) }) {
  async function ask(path, { query, signal, withKey = key(), asBlob = false, ...init }) {
    const timeout = AbortSignal.timeout(LONGEST_MS);
    const headers = { accept: asBlob ? "*/*" : "application/json", ...init.headers };
    if (withKey) headers["x-api-key"] = withKey;
    let response;
    let body;
    try {
      response = await fetcher(path + queryText(query), {
        ...init,
        headers,
        cache: "no-store",
        credentials: withKey ? "omit" : "same-origin",
        signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
      });
      if (asBlob && response.ok) return await response.blob();
      body = await response.text();
    } catch (error) {
      if (signal?.aborted) throw new DOMException("The page has moved on", "AbortError");
      throw timeout.aborted
        ? new Failure(0, "timed_out", `No answer within ${LONGEST_MS / 1000} seconds`)
        : new Failure(0, "unreachable", "The API cannot be reached. Is it running?");
    }
    const data = parsed(body);
    if (response.ok && data !== undefined) return data;
    const failure = failureOf(response, data);
    if (failure.isAboutKey && withKey === key()) onKeyRefused(failure);
    throw failure;
  }
  return {
    /** Return the JSON of a GET; throws Failure, or AbortError when `signal` ended it. */
    get: (path, options = {}) => ask(path, { ...options, method: "GET" }),
    /** Return the bytes of a GET as a Blob; throws likewise. */
    blob: (path, options = {}) => ask(path, { ...options, method: "GET", asBlob: true }),
    /** Return the JSON of a POST of JSON; throws likewise. */
    post: (path, body, options = {}) =>
      ask(path, {
        ...options,
        method: "POST",
        headers: { "content-type": "application/json", ...options.headers },
        body: JSON.stringify(body),
      }),
  };
}

function queryText(query) {
  const pairs = Object.entries(query ?? {}).flatMap(([name, value]) =>
    value === null || value === undefined ? [] : [value].flat().map((each) => [name, String(each)]),
  );
  return pairs.length ? `?${new URLSearchParams(pairs)}` : "";
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function failureOf(response, problem) {
  const seconds = Number(response.headers.get("retry-after") ?? NaN);
  const retryAfterMs = Number.isFinite(seconds) ? seconds * 1000 : null;
  if (typeof problem?.code !== "string") {
    const detail = `An answer that is not the API's: HTTP ${response.status}`;
    return new Failure(response.status, "not_the_api", detail, { retryAfterMs, data: problem });
  }
  const { code, detail = "", title = "" } = problem;
  return new Failure(response.status, code, String(detail), { retryAfterMs, title: String(title) });
}
