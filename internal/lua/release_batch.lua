-- release_batch: release.lua for n locks, m of them with a tombstone.
-- KEYS    n resources, then m redlock:dead:<owner value>
-- ARGV    n, n owners, m tombstones' lives (ms); from a process that waited, also
--         its id and n modes:
--           0 as release.lua
--           1 it has had its turn, or waits no longer: its entry goes too
--           2 it goes on waiting: its entry stays, and it is not woken itself
--         and, if it accepts pushed grants, its clock's reading (ms), n places (empty if
--         it accepts none for this lock) and n owners of its next attempts: in mode 2
--         the next attempt's entry replaces this owner's (empty if there is none), and
--         no other entry of the process goes
-- returns the number of deleted locks
-- atomic as release.lua: every DEL comes before the first tombstone. With mode 1
-- the next waiter is woken even if only our entry was there, and no key, as long as the
-- name is free: it may have been our turn. The name may be free since this very call: a
-- rollback, which keeps the entry and wakes nobody, travels before the leave.
-- An owner that has the key already, or is dead, gets no entry. If others share the name,
-- the sharers that wait behind our entry are woken (share.lua).
local call, n = redis.call, tonumber(ARGV[1])
local m = #KEYS - n
local id, modes = ARGV[2 + n + m], 2 + n + m
local reading = ARGV[3 + 2 * n + m] -- the places and owners follow it
local alive = false
local tombstone = KEYS[n + 1]
KEYS[n + 1] = 'redlock:waiting' -- one MGET for all
local val, ours, deleted = call('MGET', unpack(KEYS, 1, n + 1)), {}, {}
KEYS[n + 1] = tombstone
local waiting = val[n + 1]
for i = 1, n do
  if val[i] == ARGV[1 + i] then
    ours[#ours + 1] = KEYS[i]
    deleted[i] = true
  end
end
local gone = 0
if #ours > 0 then gone = call('DEL', unpack(ours)) end
if m > 0 then
  -- include tombstone.lua
  for i = n + 1, n + m do leaveTombstone(KEYS[i], ARGV[1 + i]) end
end
if not waiting and not id then return gone end
call = redis.pcall
local pcall = call
local function dropEntry(queue, entry)
  local place = call('ZADD', queue, 'XX', 'INCR', '0', entry)
  if type(place) ~= 'string' then return 0 end
  return call('ZREM', queue, entry, place == call('ZADD', queue, 'XX', 'INCR', '0', id) and id or entry)
end
local function replaceEntry(queue, key, entry, place, owner)
  dropEntry(queue, entry)
  if owner == '' or call('MGET', key)[1] == owner or call('EXISTS', 'redlock:dead:' .. owner) ~= 0 then return end
  call('ZADD', queue, place, id, place, id .. ' ' .. owner)
  call('PEXPIRE', queue, '300000')
  if not alive then
    call('SET', 'redlock:live:' .. id, reading, 'PX', '3000')
    call('SET', 'redlock:waiting', '1', 'PX', '3000')
    alive, waiting = true, true
  end
end
-- include wake.lua

-- placeOf is the place of an entry of this process, 0 if there is none.
local function placeOf(queue, entry)
  local place = call('ZADD', queue, 'XX', 'INCR', '0', entry)
  return type(place) == 'string' and tonumber(place) or 0
end

for i = 1, n do
  local queue, mode = 'redlock:queue:' .. KEYS[i], id and ARGV[modes + i] or '0'
  local pushes, freed, minPlace = reading and ARGV[modes + n + 1 + i] ~= '', deleted[i], nil
  if mode == '1' then
    local entry = id .. ' ' .. ARGV[1 + i]
    local place = not val[i] and placeOf(queue, pushes and entry or id)
    local gone = pushes and dropEntry(queue, entry) or call('ZREM', queue, id, entry)
    if type(gone) == 'number' and gone > 0 then
      freed = freed or call('EXISTS', KEYS[i]) == 0
      minPlace = not freed and place and call('ZRANGE', KEYS[i], '0', '0')[1] == 'redlock:shared' and place
    end
  elseif mode == '2' and pushes then
    replaceEntry(queue, KEYS[i], id .. ' ' .. ARGV[1 + i], ARGV[modes + n + 1 + i], ARGV[modes + 2 * n + 1 + i])
  end
  if (freed or minPlace) and waiting then wake(queue, KEYS[i], minPlace) end
end
return gone
