-- share: take n names together with other sharers, never beside an exclusive holder.
-- KEYS[1]   redlock:node
-- KEYS[2..] n resources, then their n redlock:dead:<owner value>
-- ARGV      epoch, the process's id, its clock's reading (ms), n stripes, n owners,
--           n ttls (ms), n positions: 0 asks for a ticket, -1 looks at no queue
-- returns 2n integers: n for the names
--   > 0   granted: the generation's number, the same for all sharers of the name here
--     0   abstained: the epoch is missing or another
--    -1   dead: this owner value has been released before
--    -2   abstained: the counter is at its end
--    -3   free, but an exclusive waiter is first
--    -9   taken, without an end
--  <= -10 taken: -10 - the remaining lease in ms; for a shared name with an exclusive
--         waiter first, the lease of its last sharer
--   then n details of a refusal:
--   without a position: a ticket
--   with one: 1 this process is the first of all here, plus 2 the holder is foreign
--   and behind them the node's TIME, if the epoch is this one
-- atomic as acquire.lua: the counter is recorded before the set is there. A shared name
-- is a sorted set under the name itself:
--   member <owner value>   score: the end of its lease, in ms by this node's TIME
--   member redlock:shared  score: minus the generation's number
-- The key ends with the last of its members, exactly, at each change. So for all other
-- scripts and clients the key is there as long as anybody shares. An ended member is gone,
-- though still in the set; the next join removes it. The mark has the lowest score, and is
-- read before any write: another program's sorted set is taken, and stays as it is.
-- The first sharer begins a generation, and counts up: its number is above all earlier ones
-- here. A sharer that joins gets the same number. There is no hint: clocks would number a
-- generation differently on each node.
-- Waiters that want to share are stored beside ask.lua's:
--   redlock:sharers:<resource>  a sorted set: the processes' ids by position
--   redlock:sharing             while such a queue may have an entry here
-- Both queues have one order: position, then exclusive first, then id. A sharer may go if
-- no living exclusive waiter stands at its position or before; without a position, if none
-- waits. A granted sharer keeps its entry until release_shared removes it.
-- A sharer that has the name already keeps it for the lease from now on, at least.
-- Nearly always every name is free and nobody waits: one EXISTS says so. Then nothing else
-- is read, and one HSET records every counter before the first set is there. A call with
-- the same name twice, or with two names on one counter, takes them one after another.
local call, pcall, n = redis.call, redis.pcall, (#KEYS - 1) / 2
local out = {}
local rec = call('HMGET', KEYS[1], 'epoch', 'base', unpack(ARGV, 4, n + 3))
if rec[1] ~= ARGV[1] then
  for i = 1, 2 * n do out[i] = 0 end
  return out
end
local time, base = call('TIME'), tonumber(rec[2] or 0)
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
KEYS[2 * n + 2] = 'redlock:waiting'
if call('EXISTS', unpack(KEYS, 2)) == 0 then
  local counted, counters, plain, numbers = {}, {}, true, {}
  for i = 1, n do
    local key, stripe, c = KEYS[1 + i], ARGV[3 + i], tonumber(rec[2 + i] or 0)
    if c < base then c = base end
    if counted[stripe] or counted[key] or c >= 9007199254740990 then
      plain = false
      break
    end
    c = c + 1
    local number = string.format('%.0f', c)
    counted[stripe], counted[key] = true, true
    counters[2 * i - 1], counters[2 * i], numbers[i] = stripe, number, '-' .. number
    out[i], out[n + i] = c, 0
  end
  if plain then
    call('HSET', KEYS[1], unpack(counters))
    for i = 1, n do
      local key, ends = KEYS[1 + i], string.format('%.0f', now + tonumber(ARGV[3 + 2 * n + i]))
      call('ZADD', key, numbers[i], 'redlock:shared', ends, ARGV[3 + n + i])
      local ended = pcall('PEXPIREAT', key, ends)
      if type(ended) == 'table' then
        call('DEL', key)
        return ended
      end
    end
    out[2 * n + 1], out[2 * n + 2] = time[1], time[2]
    return out
  end
end
local id, last, alive, val = ARGV[2], {}, false, call('MGET', unpack(KEYS, 2))
local waiting = val[2 * n + 1]

local function whole(number) return string.format('%.0f', number) end

-- taken is the reply for a key that is in the way.
local function taken(key)
  local left = call('PTTL', key)
  return left < 0 and -9 or -10 - left
end

-- isShared tells whether anybody still shares the name, and removes ended members. The
-- first member of the set, and its end, are given.
local function isShared(key, member, ends)
  while member do
    if tonumber(ends) >= now then return true end
    call('ZREM', key, member)
    local pair = call('ZRANGE', key, '1', '1', 'WITHSCORES')
    member, ends = pair[1], pair[2]
  end
  call('DEL', key)
  return false
end

-- queueHead is the place of the first living exclusive waiter.
local function queueHead(key)
  local queue = 'redlock:queue:' .. key
  while waiting do
    local head = call('ZRANGE', queue, '0', '0', 'WITHSCORES')
    if not head[1] then return end
    if call('EXISTS', 'redlock:live:' .. head[1]) == 1 then return tonumber(head[2]) end
    call('ZREM', queue, head[1])
  end
end

-- isFirst tells whether this process stands before all other living sharers.
local function isFirst(sharers)
  while true do
    local head = call('ZRANGE', sharers, '0', '0')[1]
    if not head or head == id then return head == id end
    if call('EXISTS', 'redlock:live:' .. head) == 1 then return false end
    call('ZREM', sharers, head)
  end
end

local function record(sharers, position)
  if not alive then
    call('SET', 'redlock:live:' .. id, ARGV[3], 'PX', '3000')
    call('SET', 'redlock:waiting', '1', 'PX', '3000')
    call('SET', 'redlock:sharing', '1', 'PX', '300000')
    alive, waiting = true, true
  end
  call('ZADD', sharers, position, id)
  call('PEXPIRE', sharers, '300000')
end

-- lengthen moves a member's end, and the key's end if that would be earlier.
local function lengthen(key, owner, ends)
  local latest = call('ZRANGE', key, '-1', '-1', 'WITHSCORES')[2]
  call('ZADD', key, whole(ends), owner)
  call('PEXPIREAT', key, whole(math.max(tonumber(latest), ends)))
end

for i = 1, n do
  local key, stripe, owner = KEYS[1 + i], ARGV[3 + i], ARGV[3 + n + i]
  local position, ends = tonumber(ARGV[3 + 3 * n + i]), now + tonumber(ARGV[3 + 2 * n + i])
  local sharers = 'redlock:sharers:' .. key
  local c = last[stripe] or math.max(base, tonumber(rec[2 + i] or 0))
  local holder, dead = val[i], val[n + i]
  local detail, reply, number, ahead = 0, nil, nil, nil
  if holder then
    reply = taken(key)
    if string.sub(holder, -13, -13) ~= '-' or string.sub(holder, -18, -18) ~= '-' then detail = 2 end
  else
    local mark = pcall('ZRANGE', key, '0', '1', 'WITHSCORES')
    if mark[1] == 'redlock:shared' then
      number = isShared(key, mark[3], mark[4]) and -tonumber(mark[2])
    elseif mark[1] or mark.err then
      reply, detail = taken(key), 2
    end
  end
  local ownEnd = number and call('ZSCORE', key, owner)
  if ownEnd then
    lengthen(key, owner, math.max(tonumber(ownEnd), ends))
    reply = number
  elseif not reply and dead then
    reply = -1
  elseif not reply and position >= 0 then
    ahead = queueHead(key)
    if ahead and (position == 0 or ahead <= position) then reply = number and taken(key) or -3 end
  end
  if not reply and number then
    lengthen(key, owner, ends)
    reply = number
  elseif not reply and c >= 9007199254740990 then
    reply = -2
  elseif not reply then
    c = c + 1
    call('HSET', KEYS[1], stripe, whole(c))
    last[stripe] = c
    call('ZADD', key, '-' .. whole(c), 'redlock:shared', whole(ends), owner)
    local ended = pcall('PEXPIREAT', key, whole(ends))
    if type(ended) == 'table' then
      call('DEL', key)
      return ended
    end
    reply = c
  end
  if reply <= -3 and position > 0 then
    if not dead then
      record(sharers, ARGV[3 + 3 * n + i])
      ahead = queueHead(key)
      if not (ahead and ahead <= position) and isFirst(sharers) then detail = detail + 1 end
    end
  elseif reply <= -3 then
    local top = tonumber(call('ZRANGE', 'redlock:queue:' .. key, '-1', '-1', 'WITHSCORES')[2] or 0)
    detail = math.max(top, tonumber(call('ZRANGE', sharers, '-1', '-1', 'WITHSCORES')[2] or 0), c) + 1
  end
  out[i], out[n + i] = reply, detail
end
out[2 * n + 1], out[2 * n + 2] = time[1], time[2]
return out
