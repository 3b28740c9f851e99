-- look: the sign of life of a process that waits, and n names that it waits for.
-- KEYS n resources; none: a sign of life only
-- ARGV id, n positions
-- returns n + 1 integers: 1, then for each name the remaining lease in ms
--   (-1 without an end, -2 free)
-- It stores the process's entries again: a node that forgot has them before it
-- votes. Atomic so that no entry is without its sign of life.
local call = redis.call
call('SET', 'redlock:live:' .. ARGV[1], 1, 'PX', 3000)
call('SET', 'redlock:waiting', 1, 'PX', 3000)
local out = {1}
for i = 1, #KEYS do
  local queue = 'redlock:queue:' .. KEYS[i]
  call('ZADD', queue, ARGV[1 + i], ARGV[1])
  call('PEXPIRE', queue, 300000)
  out[1 + i] = call('PTTL', KEYS[i])
end
return out
