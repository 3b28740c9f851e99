-- look: the sign of life of a process that waits, and n names that it waits for.
-- KEYS n resources; none: a sign of life only
-- ARGV id, n positions
-- returns n + 1 integers: 1 if the last sign of life was still there, and no call
--   had shortened it since (release.lua), else 0; then for each name the remaining
--   lease in ms (-1 without an end, -2 free)
-- It stores the process's entries again: a node that forgot, that heard nothing of
-- the process for long, or that called it in vain, says 0 and is told of all, before
-- it votes. Atomic so that no entry is without its sign of life.
local call, live = redis.call, 'redlock:live:' .. ARGV[1]
local out = {call('PTTL', live) > 700 and 1 or 0}
call('SET', live, 1, 'PX', 3000)
call('SET', 'redlock:waiting', 1, 'PX', 3000)
for i = 1, #KEYS do
  local queue = 'redlock:queue:' .. KEYS[i]
  call('ZADD', queue, ARGV[1 + i], ARGV[1])
  call('PEXPIRE', queue, 300000)
  out[1 + i] = call('PTTL', KEYS[i])
end
return out
