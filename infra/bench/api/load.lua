-- A list of requests, over and over, as fast as they are answered or at a rate of so many a second.
--
-- Arguments: a file with a request a line (method, path, body; tabs between), and a key. The rate is
-- in the environment, LOAD_RATE; 0: full speed.
-- At a rate each request has its moment, whoever sends it: a connection that is free takes the next
-- moment and waits for it. wrk itself corrects the latencies for what a slow answer keeps from being
-- sent. The last line printed is JSON.

local ffi = require("ffi")
ffi.cdef [[
typedef struct { long tv_sec; long tv_nsec; } soltape_timespec;
int clock_gettime(int clock, soltape_timespec *time);
]]

local MONOTONIC = 1
local now_buffer = ffi.new("soltape_timespec")
local rate = tonumber(os.getenv("LOAD_RATE"))
local requests, at, next_s = {}, 0, nil

local function now()
  ffi.C.clock_gettime(MONOTONIC, now_buffer)
  return tonumber(now_buffer.tv_sec) + tonumber(now_buffer.tv_nsec) / 1e9
end

function init(arguments)
  local file, key = arguments[1], arguments[2]
  local headers = { ["x-api-key"] = key }
  for line in io.lines(file) do
    local method, path, body = line:match("^(%S+)\t(%S+)\t(.*)$")
    local with = headers
    if body == "" then
      body = nil
    else
      with = {
        ["x-api-key"] = key,
        ["content-type"] = "application/json",
        ["accept"] = "application/json, text/event-stream",
      }
    end
    requests[#requests + 1] = wrk.format(method, path, with, body)
  end
end

function request()
  at = at % #requests + 1
  return requests[at]
end

-- wrk asks for a pause before each request if there is such a function.
if rate > 0 then
  function delay()
    local now_s = now()
    -- What could not be sent in time is sent at once, but no more than a second of it.
    next_s = math.max((next_s or now_s) + 1 / rate, now_s - 1)
    return math.max(0, math.floor((next_s - now_s) * 1000 + 0.5))
  end
end

function done(summary, latency, _)
  local errors = summary.errors
  io.write(string.format(
    '{"requests":%d,"duration_us":%d,"refused":%d,"broken":%d,"p50_us":%d,"p90_us":%d,"p99_us":%d,"max_us":%d}\n',
    summary.requests, summary.duration, errors.status,
    errors.connect + errors.read + errors.write + errors.timeout,
    latency:percentile(50), latency:percentile(90), latency:percentile(99), latency.max
  ))
end
