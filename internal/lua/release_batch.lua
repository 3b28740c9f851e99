-- release_batch: release.lua for n locks, m of them with a tombstone.
-- KEYS    n resources, then m redlock:dead:<owner value>
-- ARGV    n, n owners, m tombstones' lives (ms); and of a process that waited,
--         its id and n modes:
--           0 as release.lua
--           1 it has had its turn, or waits no longer: its entry goes too
--           2 it goes on waiting: its entry stays, and it is not woken itself
-- returns how many were deleted
-- atomic as release.lua: every DEL comes before the first tombstone. With mode 1
-- the next in line is woken also where there was no key but our entry, and the
-- name is free: it may have been our turn. It may be free since this very call: a
-- rollback that keeps the entry, and wakes nobody for it, travels before the leave.
local call, n = redis.call, tonumber(ARGV[1])
local m = #KEYS - n
local id, modes = ARGV[2 + n + m], 2 + n + m
local dead = KEYS[n + 1]
KEYS[n + 1] = 'redlock:waiting' -- one MGET for all
local val, ours, mine = call('MGET', unpack(KEYS, 1, n + 1)), {}, {}
KEYS[n + 1] = dead
local waiting = val[n + 1]
for i = 1, n do
  if val[i] == ARGV[1 + i] then
    ours[#ours + 1] = KEYS[i]
    mine[i] = true
  end
end
local gone = 0
if #ours > 0 then gone = call('DEL', unpack(ours)) end
for i = n + 1, n + m do
  if call('PTTL', KEYS[i]) < tonumber(ARGV[1 + i]) then
    call('SET', KEYS[i], 1, 'PX', ARGV[1 + i])
  end
end
if not waiting and not id then return gone end
call = redis.pcall
for i = 1, n do
  local queue, mode = 'redlock:queue:' .. KEYS[i], id and ARGV[modes + i] or '0'
  local wake = mine[i]
  if mode == '1' and call('ZREM', queue, id) == 1 then
    wake = wake or call('EXISTS', KEYS[i]) == 0
  end
  local at = 0
  while wake and waiting do
    local next = call('ZRANGE', queue, at, at)[1]
    if not next or next == id then break end
    local live = 'redlock:live:' .. next
    if call('PEXPIRE', live, 700, 'LT') == 0 and call('EXISTS', live) == 0 then
      if type(call('ZREM', queue, next)) == 'table' then break end
    elseif call('PUBLISH', 'redlock:wake:' .. next, KEYS[i]) ~= 0 then
      break
    else
      at = at + 1
    end
  end
end
return gone
