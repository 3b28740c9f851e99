-- release_batch: release.lua for n locks, m of them with a tombstone.
-- KEYS    n resources, then m redlock:dead:<owner value>
-- ARGV    n, n owners, m tombstones' lives (ms); and of a process that waited,
--         its id and n modes:
--           0 as release.lua
--           1 it has had its turn, or waits no longer: its entry goes too
--           2 it goes on waiting: its entry stays, and it is not woken itself
--         and where it takes grants by push, its clock's reading (ms), n places (empty:
--         this one takes none) and n owners of the attempts with which it goes on: by
--         mode 2 theirs comes for this owner's entry (empty: none comes). No other entry
--         of its own goes then
-- returns how many were deleted
-- atomic as release.lua: every DEL comes before the first tombstone. With mode 1
-- the next in line is woken also where there was no key but our entry, and the
-- name is free: it may have been our turn. It may be free since this very call: a
-- rollback that keeps the entry, and wakes nobody for it, travels before the leave.
-- An owner that has the key already, or is dead, gets no entry. Where others share the
-- name, who waits to share it behind our entry is woken (share.lua).
local call, n = redis.call, tonumber(ARGV[1])
local m = #KEYS - n
local id, modes = ARGV[2 + n + m], 2 + n + m
local sign = ARGV[3 + 2 * n + m] -- and the places and owners behind it
local alive = false
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
    call('SET', KEYS[i], '1', 'PX', ARGV[1 + i])
  end
end
if not waiting and not id then return gone end
call = redis.pcall
local pcall = call
local function out(queue, own)
  local at = call('ZADD', queue, 'XX', 'INCR', '0', own)
  if type(at) ~= 'string' then return 0 end
  return call('ZREM', queue, own, at == call('ZADD', queue, 'XX', 'INCR', '0', id) and id or own)
end
local function goesOn(queue, key, own, place, owner)
  out(queue, own)
  if owner == '' or call('MGET', key)[1] == owner or call('EXISTS', 'redlock:dead:' .. owner) ~= 0 then return end
  call('ZADD', queue, place, id, place, id .. ' ' .. owner)
  call('PEXPIRE', queue, '300000')
  if not alive then
    call('SET', 'redlock:live:' .. id, sign, 'PX', '3000')
    call('SET', 'redlock:waiting', '1', 'PX', '3000')
    alive, waiting = true, true
  end
end
-- include rouse.lua

-- place is where an entry of this process stands.
local function place(queue, own)
  local at = call('ZADD', queue, 'XX', 'INCR', '0', own)
  return type(at) == 'string' and tonumber(at) or 0
end

for i = 1, n do
  local queue, mode = 'redlock:queue:' .. KEYS[i], id and ARGV[modes + i] or '0'
  local pushes, wake, from = sign and ARGV[modes + n + 1 + i] ~= '', mine[i], nil
  if mode == '1' then
    local own = id .. ' ' .. ARGV[1 + i]
    local at = not val[i] and place(queue, pushes and own or id)
    local gone = pushes and out(queue, own) or call('ZREM', queue, id, own)
    if type(gone) == 'number' and gone > 0 then
      wake = wake or call('EXISTS', KEYS[i]) == 0
      from = not wake and at and call('ZRANGE', KEYS[i], '0', '0')[1] == 'redlock:shared' and at
    end
  elseif mode == '2' and pushes then
    goesOn(queue, KEYS[i], id .. ' ' .. ARGV[1 + i], ARGV[modes + n + 1 + i], ARGV[modes + 2 * n + 1 + i])
  end
  if (wake or from) and waiting then rouse(queue, KEYS[i], from) end
end
return gone
