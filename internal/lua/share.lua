-- share: take n names beside others who share them, never beside an exclusive holder.
-- KEYS[1]   redlock:node
-- KEYS[2..] n resources, then their n redlock:dead:<owner value>
-- ARGV      epoch, the process's id, its clock's reading (ms), n stripes, n owners,
--           n ttls (ms), n positions: 0 asks for a ticket, -1 looks at no line
-- returns 2n integers: n of the names
--   > 0   granted: the generation's number, the same for all who share the name here
--     0   abstained: the epoch is missing or another
--    -1   dead: this owner value has been released before
--    -2   abstained: the counter is at its end
--    -3   free, and kept for an exclusive that waits before
--    -9   taken, without an end
--  <= -10 taken: -10 - the remaining lease in ms; of a shared name, for which an
--         exclusive waits before, that of the last who shares it
--   then n that say more of a refusal:
--   without a position: a ticket
--   with one: 1 this process is the first of all here, plus 2 the holder is foreign
-- atomic as acquire.lua: the counter is recorded before the set is there. A shared name
-- is a sorted set under the name itself:
--   member <owner value>   score: the end of its lease, in ms by this node's TIME
--   member redlock:shared  score: minus the generation's number
-- The key ends with the last of its members, kept exact at each change, so for all other
-- scripts and clients a key is there as long as anybody shares. A member that has ended is
-- gone, though still in the set; whoever joins removes it. The mark has the lowest
-- score, and is looked at before anything is changed: another program's sorted set is
-- taken, and stays as it is.
-- The first begins a generation, and counts up: its number is above all that were given
-- here. Who joins gets the same number. There is no hint: clocks would number a
-- generation differently on each node.
-- Who waits to share is kept beside those that ask.lua has:
--   redlock:sharers:<resource>  a sorted set: the processes' ids by position
--   redlock:sharing             while anybody may stand in such a line here
-- There is one order of both lines: position, then exclusive first, then id. A sharer
-- goes where no living exclusive stands at its position or before; without a position,
-- where none waits. Who is granted keeps its entry, until release_shared takes it.
-- Who has the name already keeps it for the lease from now on, at least.
-- Nearly always every name is free and nobody waits: one EXISTS says so. Then nothing else
-- is looked at, and one HSET records every counter before the first set is there. The
-- same name twice, or two on one counter, go the long way, one after another.
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
    return out
  end
end
local id, last, alive, val = ARGV[2], {}, false, call('MGET', unpack(KEYS, 2))
local waiting = val[2 * n + 1]

local function whole(number) return string.format('%.0f', number) end

-- taken is the reply that a key gives which is in the way.
local function taken(key)
  local left = call('PTTL', key)
  return left < 0 and -9 or -10 - left
end

-- shares tells whether anybody shares the name still, and removes who has ended: who is
-- the first of those, and until when.
local function shares(key, who, ends)
  while who do
    if tonumber(ends) >= now then return true end
    call('ZREM', key, who)
    local pair = call('ZRANGE', key, '1', '1', 'WITHSCORES')
    who, ends = pair[1], pair[2]
  end
  call('DEL', key)
  return false
end

-- alone is the place of the first living process that waits to be alone.
local function alone(key)
  local queue = 'redlock:queue:' .. key
  while waiting do
    local head = call('ZRANGE', queue, '0', '0', 'WITHSCORES')
    if not head[1] then return end
    if call('EXISTS', 'redlock:live:' .. head[1]) == 1 then return tonumber(head[2]) end
    call('ZREM', queue, head[1])
  end
end

-- first tells whether this process stands before all that live, and wait to share.
local function first(line)
  while true do
    local head = call('ZRANGE', line, '0', '0')[1]
    if not head or head == id then return head == id end
    if call('EXISTS', 'redlock:live:' .. head) == 1 then return false end
    call('ZREM', line, head)
  end
end

local function record(line, position)
  if not alive then
    call('SET', 'redlock:live:' .. id, ARGV[3], 'PX', '3000')
    call('SET', 'redlock:waiting', '1', 'PX', '3000')
    call('SET', 'redlock:sharing', '1', 'PX', '300000')
    alive, waiting = true, true
  end
  call('ZADD', line, position, id)
  call('PEXPIRE', line, '300000')
end

-- lengthen has a member end then, and the key no earlier.
local function lengthen(key, owner, ends)
  local latest = call('ZRANGE', key, '-1', '-1', 'WITHSCORES')[2]
  call('ZADD', key, whole(ends), owner)
  call('PEXPIREAT', key, whole(math.max(tonumber(latest), ends)))
end

for i = 1, n do
  local key, stripe, owner = KEYS[1 + i], ARGV[3 + i], ARGV[3 + n + i]
  local position, ends = tonumber(ARGV[3 + 3 * n + i]), now + tonumber(ARGV[3 + 2 * n + i])
  local line = 'redlock:sharers:' .. key
  local c = last[stripe] or math.max(base, tonumber(rec[2 + i] or 0))
  local holder, dead = val[i], val[n + i]
  local more, reply, number, before = 0, nil, nil, nil
  if holder then
    reply = taken(key)
    if string.sub(holder, -13, -13) ~= '-' or string.sub(holder, -18, -18) ~= '-' then more = 2 end
  else
    local mark = pcall('ZRANGE', key, '0', '1', 'WITHSCORES')
    if mark[1] == 'redlock:shared' then
      number = shares(key, mark[3], mark[4]) and -tonumber(mark[2])
    elseif mark[1] or mark.err then
      reply, more = taken(key), 2
    end
  end
  local mine = number and call('ZSCORE', key, owner)
  if mine then
    lengthen(key, owner, math.max(tonumber(mine), ends))
    reply = number
  elseif not reply and dead then
    reply = -1
  elseif not reply and position >= 0 then
    before = alone(key)
    if before and (position == 0 or before <= position) then reply = number and taken(key) or -3 end
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
      record(line, ARGV[3 + 3 * n + i])
      before = alone(key)
      if not (before and before <= position) and first(line) then more = more + 1 end
    end
  elseif reply <= -3 then
    local top = tonumber(call('ZRANGE', 'redlock:queue:' .. key, '-1', '-1', 'WITHSCORES')[2] or 0)
    more = math.max(top, tonumber(call('ZRANGE', line, '-1', '-1', 'WITHSCORES')[2] or 0), c) + 1
  end
  out[i], out[n + i] = reply, more
end
return out
