-- release_shared: end n shared holds, m of them with a tombstone, and wake who waits.
-- KEYS    n resources, then m redlock:dead:<owner value>
-- ARGV    n, n owners, m tombstones' lives (ms); and of a process that waited to share,
--         its id, n modes and n places:
--           0 it has no entry there
--           1 it has had its turn, or waits no longer: its entry goes too, if it stands at
--             that place or before (a later one is that of goroutines which wait still)
--           2 it goes on waiting: its entry stays, and no other that waits to share is woken
-- returns how many were ended, that had not ended by themselves
-- atomic because the key must end with the last who is left (share.lua says what is
-- stored): with none left it goes. All ends come before the first tombstone, which is left
-- as release.lua leaves it. It takes one member only, so any node may run it, and late.
-- Where the key goes, or our entry did and the name is free, it wakes as release.lua does;
-- after a rollback (mode 2) only an exclusive that stands before all who wait to share:
-- those could go before as well, and would wake each other for ever.
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
      call('DEL', key) -- nobody else is in the set
      freed[i] = true
      if tonumber(set[4]) >= now then gone = gone + 1 end
    else
      local mine = call('ZSCORE', key, owner)
      if mine then
        call('ZREM', key, owner)
        if tonumber(mine) >= now then gone = gone + 1 end
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
for i = n + 1, n + m do
  if call('PTTL', KEYS[i]) < tonumber(ARGV[1 + i]) then
    call('SET', KEYS[i], '1', 'PX', ARGV[1 + i])
  end
end
if not id and not next(freed) or call('EXISTS', 'redlock:waiting') == 0 then return gone end
call = pcall

-- rouse calls who may go, in their order, up to the first that hears it; those who share
-- go together, up to 128 of them.
local function rouse(key, rollback)
  local queue, line = 'redlock:queue:' .. key, 'redlock:sharers:' .. key
  local at, beside, together = 0, 0, 0
  while together < 128 do
    local head = call('ZRANGE', queue, at, at, 'WITHSCORES')
    local who, place, of = head[1], tonumber(head[2] or math.huge), queue
    if who and string.find(who, ' ', 1, true) then
      at = at + 1
    else
      local beyond = call('ZRANGE', line, beside, beside, 'WITHSCORES')
      if beyond[1] and tonumber(beyond[2]) < place then who, of = beyond[1], line end
      if not who or rollback and of == line and who == id then return end
      local live = 'redlock:live:' .. who
      if call('EXISTS', live) == 0 then
        if type(call('ZREM', of, who)) == 'table' then return end
      elseif of == queue and together > 0 or of == line and rollback then
        return
      else
        call('PEXPIRE', live, '700', 'LT')
        local heard = call('PUBLISH', 'redlock:wake:' .. who, key) ~= 0
        if of == line then
          beside = beside + 1
          if heard then together = together + 1 end
        elseif heard then
          return
        else
          at = at + 1
        end
      end
    end
  end
end

for i = 1, n do
  local line, mode, wake = 'redlock:sharers:' .. KEYS[i], id and ARGV[modes + i] or '0', freed[i]
  if mode == '1' then
    local place = call('ZSCORE', line, id)
    if type(place) == 'string' and tonumber(place) <= tonumber(ARGV[modes + n + i]) then
      call('ZREM', line, id)
      wake = wake or call('EXISTS', KEYS[i]) == 0
    end
  end
  if wake then rouse(KEYS[i], mode == '2') end
end
return gone
