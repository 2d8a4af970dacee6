// Asking again from time to time, while somebody looks.

const FIRST_RETRY_MS = 5_000; // or the period, where that is shorter
const LONGEST_WAIT_MS = 300_000;

/**
 * Run `task()` now and again `periodMs()` after it ended, one at a time, and not while the page is
 * hidden: then once it is seen again, if it is time. A task that throws is tried again later and
 * later; `retryAfterMs` of its error is waited for at least. What a task throws is its own affair:
 * it shows it to people. Returns `{now(), stop()}`.
 */
export function refresh(task, periodMs, world = {}) {
  const {
    page = document,
    clock = Date.now,
    setTimer = (...all) => setTimeout(...all),
    clearTimer = (id) => clearTimeout(id),
  } = world;
  let timer = null;
  let failures = 0;
  let dueMs = 0; // of the next run
  let isRunning = false;
  let isWanted = false; // once more, as soon as it has ended
  let isStopped = false;

  async function run() {
    clearTimer(timer);
    if (isRunning) {
      isWanted = true;
      return;
    }
    isRunning = true;
    let waitMs;
    try {
      await task();
      failures = 0;
      waitMs = periodMs();
    } catch (error) {
      failures += 1;
      const first = Math.min(periodMs(), FIRST_RETRY_MS);
      const later = Math.min(LONGEST_WAIT_MS, first * 2 ** Math.min(failures - 1, 8));
      waitMs = Math.max(later, error?.retryAfterMs ?? 0);
    }
    isRunning = false;
    if (isStopped) return;
    dueMs = clock() + waitMs;
    if (isWanted) {
      isWanted = false;
      run();
    } else plan();
  }

  function plan() {
    clearTimer(timer);
    if (isStopped || isRunning || page.hidden) return;
    timer = setTimer(run, Math.max(0, dueMs - clock()));
  }

  function now() {
    if (page.hidden) dueMs = 0; // once it is seen again
    else run();
  }

  page.addEventListener("visibilitychange", plan);
  run();
  return {
    now,
    stop() {
      isStopped = true;
      clearTimer(timer);
      page.removeEventListener("visibilitychange", plan);
    },
  };
}
