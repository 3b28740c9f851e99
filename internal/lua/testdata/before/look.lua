-- look: the sign of life of a process that waits, and n names that it waits for.
-- KEYS n resources; none: a sign of life only
-- ARGV id, n positions; and of a process that takes grants by push, its clock's
--   reading (ms) and n owners of the attempts that wait (empty: takes none so)
-- returns n + 1 integers: 1 if the last sign of life was still there, and no call
--   had shortened it since (release.lua), else 0; then for each name the remaining
--   lease in ms (-1 without an end, -2 free, -3 held by that owner: it was granted)
-- It stores the process's entries again: a node that forgot, that heard nothing of
-- the process for long, or that called it in vain, says 0 and is told of all, before
-- it votes. Atomic so that no entry is without its sign of life. An owner that has
-- been granted the name, or is dead, gets no entry.
local call, n, live = redis.call, #KEYS, 'redlock:live:' .. ARGV[1]
local out, sign = {call('PTTL', live) > 700 and 1 or 0}, ARGV[2 + n]
call('SET', live, sign or '1', 'PX', '3000')
call('SET', 'redlock:waiting', '1', 'PX', '3000')
for i = 1, n do
  local queue, owner, stands = 'redlock:queue:' .. KEYS[i], sign and ARGV[2 + n + i] or '', true
  if owner ~= '' then
    local val = call('MGET', KEYS[i], 'redlock:dead:' .. owner)
    if val[1] == owner then
      out[1 + i], stands = -3, false
    elseif val[2] then
      stands = false
    else
      call('ZADD', queue, ARGV[1 + i], ARGV[1], ARGV[1 + i], ARGV[1] .. ' ' .. owner)
    end
  else
    call('ZADD', queue, ARGV[1 + i], ARGV[1])
  end
  if stands then call('PEXPIRE', queue, '300000') end
  out[1 + i] = out[1 + i] or call('PTTL', KEYS[i])
end
return out
