-- hand: release n locks, and grant each to the head of its queue.
-- KEYS[1]   redlock:node
-- KEYS[2..] n resources
-- ARGV      epoch, n stripes, n owners, n hints; from a process that stood in the
--           queue for any of them, also its id, its clock's reading (ms), n owners of
--           its next attempts (empty if none), and n owners of the attempts that stood
--           in the queue (empty if none)
-- returns, if nobody waits on the node and no id is given, how many it deleted; else 2n
--   integers: n for the locks
--     0 not ours
--     1 deleted: nobody waits, or the waiters were woken
--     2 granted to the head
--   then n for the next owners
--   > 0 in the queue: the place
--     0 not in the queue here
--   < 0 granted, and ours: minus the token
-- atomic because an entry is an acquire that has not run yet, and this script runs it:
-- acquire.lua's rules for counter and key hold here too. It is loaded with the scripts
-- that vote, since a grant is a vote.
-- ask.lua tells how waiters are stored. The head is told on redlock:wake:<id>:
--   redlock:push, epoch, token, its clock's reading, its owner, the name, each but
--   the last ended by a line feed
-- The reading comes from the head's last sign of life, and so from before the grant: the
-- lease of 3 s counts from there. The grant shortens that sign, as waking does: a head
-- that did not hear the grant learns of it by its next sign (look.lua). An entry goes when
-- it is granted.
-- No grant (the head is woken instead, as release.lua does it) if: hint = -1; epoch
-- differs; head does not accept pushes or is unreachable; counter exhausted; PUBLISH
-- denied; a shared waiter (share.lua) is first. An unreachable head keeps its place for
-- 700 ms: perhaps only its connection is broken.
-- The next owner is placed behind all waiters and above the counter. With a hint of -1 it
-- gets no place if nobody else waits: then the name is free for all. This is the next
-- owner's first ask, so a tombstone keeps it out. If the key is not ours, the old
-- attempt's entry goes, and no other entry of ours: this call may come late.
local call, pcall, n = redis.call, redis.pcall, #KEYS - 1
local id, ownReading, nextOwners = ARGV[2 + 3 * n], ARGV[3 + 3 * n], 3 + 3 * n
KEYS[n + 2] = 'redlock:waiting'
local val = call('MGET', unpack(KEYS, 2))
if not val[n + 1] and not id then
  local ours, m = {}, 0
  for i = 1, n do
    if val[i] == ARGV[1 + n + i] then
      m = m + 1
      ours[m] = KEYS[1 + i]
    end
  end
  return m > 0 and call('DEL', unpack(ours)) or 0
end
local rec = call('HMGET', KEYS[1], 'epoch', 'base', unpack(ARGV, 2, n + 1))
local base, votes, held, counted, alive, out = tonumber(rec[2] or 0), rec[1] == ARGV[1], {}, {}, false, {}

-- include head.lua
-- include wake.lua

for i = 1, n do
  local key, stripe, owner, nextOwner = KEYS[1 + i], ARGV[1 + i], ARGV[1 + n + i], id and ARGV[nextOwners + i] or ''
  local queue, holder = 'redlock:queue:' .. key, val[i]
  if held[key] ~= nil then holder = held[key] end
  local c = math.max(base, counted[stripe] or tonumber(rec[2 + i] or 0))
  local ownEntry = votes and nextOwner ~= '' and id .. ' ' .. nextOwner
  local hasTombstone = ownEntry and call('EXISTS', 'redlock:dead:' .. nextOwner) == 1
  local reply, nextReply, ownPlace, wakesOnly = 0, 0, nil, ARGV[1 + 2 * n + i] == '-1'
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
    local nextToken = math.max(c + 1, tonumber(ARGV[1 + 2 * n + i]), place or 0)
    if claim and not wakesOnly and nextToken < 9007199254740991 then
      local token = string.format('%.0f', nextToken)
      call('HSET', KEYS[1], stripe, token)
      c = nextToken
      holder = string.sub(claim, #waiter + 2)
      call('SET', key, holder, 'PX', '3000')
      local heard = waiter == id or pcall('PUBLISH', 'redlock:wake:' .. waiter,
        'redlock:push\n' .. ARGV[1] .. '\n' .. token .. '\n' .. reading .. '\n' .. holder .. '\n' .. key)
      if heard ~= 0 and type(heard) ~= 'table' then
        reply = 2
        if place > 0 then call('ZREM', queue, waiter, claim) end
        if waiter == id then nextReply = -c else pcall('PEXPIRE', 'redlock:live:' .. waiter, '700', 'LT') end
      end
    end
    if reply == 0 then
      reply, holder = call('DEL', key), false
      wake(queue, key)
    end
  elseif ownEntry and holder == nextOwner then
    nextReply = -c
  elseif id then
    ownPlace = ownEntry and call('ZADD', queue, 'XX', 'INCR', '0', ownEntry)
    local oldEntry = id .. ' ' .. ARGV[nextOwners + n + i]
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
      if not alive then
        call('SET', 'redlock:live:' .. id, ownReading, 'PX', '3000')
        call('SET', 'redlock:waiting', '1', 'PX', '3000')
        alive = true
      end
    end
  end
  held[key], counted[stripe] = holder, c
  out[i], out[n + i] = reply, nextReply
end
return out
