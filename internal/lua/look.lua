-- look: a waiting process's sign of life, and n names that it waits for.
-- KEYS n resources; none for a sign of life only
-- ARGV id, epoch (empty: unknown), n positions (below 0: the process waits to share that
--   name, at the place without the minus; share.lua); from a process that accepts pushed
--   grants, also its clock's reading (ms) and n owners of the waiting attempts (empty:
--   accepts no push)
-- returns n + 1 integers: 1 if the last sign of life was still there, and no wake-up
--   had shortened it since (release.lua), else 0, and 2 more if the epoch is another; then
--   for each name the remaining lease in ms (-1 without an end, -2 free, -3 ask now: that
--   owner was granted the name; or the process waits to share a shared name, and no living
--   exclusive waiter is first)
-- It stores the process's entries again. A node that forgot them, heard nothing from the
-- process for long, or woke it in vain replies 0, and is told all entries before it votes.
-- Atomic so that no entry is without its sign of life. An owner that has been granted the
-- name, or is dead, gets no entry.
local call, n, live = redis.call, #KEYS, 'redlock:live:' .. ARGV[1]
local out, reading = {call('PTTL', live) > 700 and 1 or 0}, ARGV[3 + n]
if ARGV[2] ~= '' and call('HMGET', 'redlock:node', 'epoch')[1] ~= ARGV[2] then out[1] = out[1] + 2 end
call('SET', live, reading or '1', 'PX', '3000')
call('SET', 'redlock:waiting', '1', 'PX', '3000')

-- enterShared stores the entry of a waiter that wants to share. It tells whether the name
-- is shared and the waiter may join now.
local sharing
local function enterShared(key, place, owner)
  local sharers, queue = 'redlock:sharers:' .. key, 'redlock:queue:' .. key
  if owner ~= '' and call('EXISTS', 'redlock:dead:' .. owner) == 1 then return false end
  call('ZADD', sharers, place, ARGV[1])
  call('PEXPIRE', sharers, '300000')
  sharing = sharing or call('SET', 'redlock:sharing', '1', 'PX', '300000')
  if redis.pcall('ZRANGE', key, '0', '0')[1] ~= 'redlock:shared' then return false end
  while true do
    local head = call('ZRANGE', queue, '0', '0', 'WITHSCORES')
    if not head[1] or tonumber(head[2]) > tonumber(place) then return true end
    if call('EXISTS', 'redlock:live:' .. head[1]) == 1 then return false end
    call('ZREM', queue, head[1])
  end
end

for i = 1, n do
  local queue, owner, stands = 'redlock:queue:' .. KEYS[i], reading and ARGV[3 + n + i] or '', true
  if string.sub(ARGV[2 + i], 1, 1) == '-' then
    stands = false
    if enterShared(KEYS[i], string.sub(ARGV[2 + i], 2), owner) then out[1 + i] = -3 end
  elseif owner ~= '' then
    local val = call('MGET', KEYS[i], 'redlock:dead:' .. owner)
    if val[1] == owner then
      out[1 + i], stands = -3, false
    elseif val[2] then
      stands = false
    else
      call('ZADD', queue, ARGV[2 + i], ARGV[1], ARGV[2 + i], ARGV[1] .. ' ' .. owner)
    end
  else
    call('ZADD', queue, ARGV[2 + i], ARGV[1])
  end
  if stands then call('PEXPIRE', queue, '300000') end
  out[1 + i] = out[1 + i] or call('PTTL', KEYS[i])
end
return out
