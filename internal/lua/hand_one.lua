-- hand_one: hand.lua for one lock.
-- KEYS[1] the resource
-- KEYS[2] redlock:node
-- ARGV    owner, epoch, hint, stripe; from a process that stood in its queue, also
--         its id, its clock's reading (ms), the owner of its next attempt, and the
--         owner of the attempt that stood in the queue (each empty if none)
-- returns, if nobody waits and no id is given, 1 deleted; 0 absent or another owner's;
--   else hand.lua's two integers
-- atomic as hand.lua.
local call, key, owner, id, nextOwner = redis.call, KEYS[1], ARGV[1], ARGV[5], ARGV[7]
local goesOn = id and nextOwner ~= ''
local val = goesOn and call('MGET', key, 'redlock:waiting', 'redlock:dead:' .. nextOwner) or call('MGET', key, 'redlock:waiting')
local holder = val[1]
if not id and (not val[2] or call('EXISTS', 'redlock:queue:' .. key, 'redlock:sharers:' .. key) == 0) then return holder == owner and call('DEL', key) or 0 end
local pcall, stripe, ownReading, queue = redis.pcall, ARGV[4], ARGV[6], 'redlock:queue:' .. key
local rec = call('HMGET', KEYS[2], 'epoch', 'base', stripe)
local votes, c = rec[1] == ARGV[2], math.max(tonumber(rec[2] or 0), tonumber(rec[3] or 0))
local ownEntry, hasTombstone, wakesOnly = votes and goesOn and id .. ' ' .. nextOwner, val[3], ARGV[3] == '-1'
local reply, nextReply, ownPlace = 0, 0, nil

-- include head.lua
-- include wake.lua

if holder == owner then
  local waiter, place, reading, claim
  if votes then
    waiter, place, reading, claim = livingHead(queue, ownEntry)
    local sharedPlace = firstSharer(key)
    if sharedPlace and not (place and place <= sharedPlace) then
      claim = nil
    elseif not waiter and ownEntry and not hasTombstone then
      waiter, place, claim = id, 0, ownEntry
    end
  end
  local nextToken = math.max(c + 1, tonumber(ARGV[3]), place or 0)
  if claim and not wakesOnly and nextToken < 9007199254740991 then
    local newOwner, token = string.sub(claim, #waiter + 2), string.format('%.0f', nextToken)
    call('HSET', KEYS[2], stripe, token)
    c = nextToken
    call('SET', key, newOwner, 'PX', '3000')
    local heard = waiter == id or pcall('PUBLISH', 'redlock:wake:' .. waiter,
      'redlock:push\n' .. ARGV[2] .. '\n' .. token .. '\n' .. reading .. '\n' .. newOwner .. '\n' .. key)
    if heard ~= 0 and type(heard) ~= 'table' then
      reply = 2
      if place > 0 then call('ZREM', queue, waiter, claim) end
      if waiter == id then nextReply = -c else pcall('PEXPIRE', 'redlock:live:' .. waiter, '700', 'LT') end
    end
  end
  if reply == 0 then
    reply = call('DEL', key)
    wake(queue, key)
  end
elseif ownEntry and holder == nextOwner then
  nextReply = -c
elseif id then
  ownPlace = ownEntry and call('ZADD', queue, 'XX', 'INCR', '0', ownEntry)
  local oldEntry = id .. ' ' .. ARGV[8]
  local oldPlace = call('ZADD', queue, 'XX', 'INCR', '0', oldEntry)
  if oldPlace then
    local onlyEntry = oldPlace ~= ownPlace and oldPlace == call('ZADD', queue, 'XX', 'INCR', '0', id)
    call('ZREM', queue, oldEntry, onlyEntry and id or oldEntry)
    if not holder then wake(queue, key, pcall('ZRANGE', key, '0', '0')[1] == 'redlock:shared' and tonumber(oldPlace)) end
  end
end
if ownPlace then
  nextReply = tonumber(ownPlace)
elseif ownEntry and nextReply == 0 and not hasTombstone then
  local last = call('ZRANGE', queue, '-1', '-1', 'WITHSCORES')[2]
  local lastSharer = firstSharer(key) and call('ZRANGE', 'redlock:sharers:' .. key, '-1', '-1', 'WITHSCORES')[2]
  nextReply = math.max(tonumber(last or 0), tonumber(lastSharer or 0), c) + 1
  last = last or lastSharer
  if nextReply >= 9007199254740991 or wakesOnly and reply == 1 and not last then
    nextReply = 0
  else
    local place = string.format('%.0f', nextReply)
    call('ZADD', queue, place, id, place, ownEntry)
    call('PEXPIRE', queue, '300000')
    call('SET', 'redlock:live:' .. id, ownReading, 'PX', '3000')
    call('SET', 'redlock:waiting', '1', 'PX', '3000')
  end
end
return {reply, nextReply}
