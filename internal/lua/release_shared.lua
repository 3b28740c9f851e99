-- release_shared: end n shared holds, m of them with a tombstone, and wake the waiters.
-- KEYS    n resources, then m redlock:dead:<owner value>
-- ARGV    n, n owners, m tombstones' lives (ms); from a process that waited to share,
--         also its id, n modes and n places:
--           0 it has no entry there
--           1 it has had its turn, or waits no longer: its entry goes too, if it stands at
--             that place or before (a later one belongs to goroutines that still wait)
--           2 it goes on waiting: its entry stays, and no other sharer is woken
-- returns the number of holds that this call ended; expired ones do not count
-- atomic because the key must end with its last member (share.lua tells the format): with
-- none left it goes. All ends come before the first tombstone, which is left as
-- release.lua leaves it. It removes one member only, so any node may run it, even late.
-- If the key goes, or our entry went and the name is free, it wakes as release.lua does.
-- After a rollback (mode 2) it wakes only an exclusive waiter that stands before all
-- sharers: the sharers could have gone already, and would wake each other for ever.
local call, pcall, n = redis.call, redis.pcall, tonumber(ARGV[1])
local m = #KEYS - n
local id, modes = ARGV[2 + n + m], 2 + n + m
local gone, freed, now = 0, {}, nil
for i = 1, n do
  local key, owner = KEYS[i], ARGV[1 + i]
  local set = pcall('ZRANGE', key, '0', '2', 'WITHSCORES')
  if set[1] == 'redlock:shared' then
    if not now then
      local time = call('TIME')
      now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
    end
    if set[3] == owner and not set[5] then
      call('DEL', key) -- the set has no other member
      freed[i] = true
      if tonumber(set[4]) >= now then gone = gone + 1 end
    else
      local ownEnd = call('ZSCORE', key, owner)
      if ownEnd then
        call('ZREM', key, owner)
        if tonumber(ownEnd) >= now then gone = gone + 1 end
        local latest = tonumber(call('ZRANGE', key, '-1', '-1', 'WITHSCORES')[2])
        if latest < now then
          call('DEL', key)
          freed[i] = true
        else
          call('PEXPIREAT', key, string.format('%.0f', latest))
        end
      end
    end
  end
end
if m > 0 then
  -- include tombstone.lua
  for i = n + 1, n + m do leaveTombstone(KEYS[i], ARGV[1 + i]) end
end
if not id and not next(freed) or call('EXISTS', 'redlock:waiting') == 0 then return gone end
call = pcall

-- wake wakes the waiters whose turn it is, in order, up to the first that hears it; sharers
-- are woken together, up to 128 of them.
local function wake(key, rollback)
  local exclusive, sharers = 'redlock:queue:' .. key, 'redlock:sharers:' .. key
  local index, sharerIndex, woken = 0, 0, 0
  while woken < 128 do
    local head = call('ZRANGE', exclusive, index, index, 'WITHSCORES')
    local waiter, place, queue = head[1], tonumber(head[2] or math.huge), exclusive
    if waiter and string.find(waiter, ' ', 1, true) then
      index = index + 1
    else
      local sharer = call('ZRANGE', sharers, sharerIndex, sharerIndex, 'WITHSCORES')
      if sharer[1] and tonumber(sharer[2]) < place then waiter, queue = sharer[1], sharers end
      if not waiter or rollback and queue == sharers and waiter == id then return end
      local live = 'redlock:live:' .. waiter
      if call('EXISTS', live) == 0 then
        if type(call('ZREM', queue, waiter)) == 'table' then return end
      elseif queue == exclusive and woken > 0 or queue == sharers and rollback then
        return
      else
        call('PEXPIRE', live, '700', 'LT')
        local heard = call('PUBLISH', 'redlock:wake:' .. waiter, key) ~= 0
        if queue == sharers then
          sharerIndex = sharerIndex + 1
          if heard then woken = woken + 1 end
        elseif heard then
          return
        else
          index = index + 1
        end
      end
    end
  end
end

for i = 1, n do
  local sharers, mode, isFree = 'redlock:sharers:' .. KEYS[i], id and ARGV[modes + i] or '0', freed[i]
  if mode == '1' then
    local place = call('ZSCORE', sharers, id)
    if type(place) == 'string' and tonumber(place) <= tonumber(ARGV[modes + n + i]) then
      call('ZREM', sharers, id)
      isFree = isFree or call('EXISTS', KEYS[i]) == 0
    end
  end
  if isFree then wake(KEYS[i], mode == '2') end
end
return gone
