-- ask: acquire.lua for n names that a process waits for, by its place in the queue.
-- KEYS[1]   redlock:node
-- KEYS[2..] n resources, then their n redlock:dead:<owner value>
-- ARGV      epoch, the waiting process's id, n stripes, n owners, n ttls (ms),
--           n hints, n positions: 0 asks for a ticket, -1 looks at no queue; from a
--           process that accepts pushed grants, also its clock's reading (ms) and n
--           flags: 1 accepts a push for this lock, 0 does not
-- returns 2n integers: n as acquire.lua's, then n details of a refusal:
--   without a position: a ticket
--   with one: 1 this process is the head here, plus 2 the holder is foreign
--   and behind them the node's TIME, if the user may read it and the epoch is this one
-- atomic as acquire.lua. Waiters are stored in
--   redlock:queue:<resource>  a sorted set: the processes' ids by position; and a
--                             claim "id owner" at the same position, right behind, if
--                             a release may grant to that owner (hand.lua)
--   redlock:live:<id>         while the process lives, its reading; an entry without it
--                             is dead, and the next script that meets the entry drops it
--   redlock:waiting           while this node has any waiter
-- and waiters that want to share in a queue of their own (share.lua). These keys are named
-- here and not in KEYS: a node is one server, never a Cluster. A living sharer at a lower
-- position comes first. A shared name is taken until its last sharer ends.
-- A free name is granted to the head only. A position lower than every living one makes
-- its process the head, even if it was not recorded before: so no two heads on different
-- nodes can wait for each other. An ask wakes nobody. An ask with a dead owner value
-- records nobody: it comes late, and its process may have left.
-- A process that accepts pushes has an entry for each attempt, and only the entry with
-- this owner is its own. Another entry of the process belongs to an attempt that has
-- ended, and is dropped at the head. (A dead ask does not drop it: that ask comes late,
-- and the other entry is newer.)
-- An entry goes when it is granted. Its token is no lower than its position, even if a
-- release granted it before; such a key gets its full lease here.
local call, pcall, n = redis.call, redis.pcall, (#KEYS - 1) / 2
local id, reading, pushes, out = ARGV[2], ARGV[3 + 5 * n] or 1, 3 + 5 * n, {}
local rec = call('HMGET', KEYS[1], 'epoch', 'base', unpack(ARGV, 3, n + 2))
if rec[1] ~= ARGV[1] then
  for i = 1, 2 * n do out[i] = 0 end
  return out
end
local alive = false
local function record(queue, position, ownEntry)
  if not alive then
    call('SET', 'redlock:live:' .. id, reading, 'PX', '3000')
    call('SET', 'redlock:waiting', '1', 'PX', '3000')
    alive = true
  end
  if ownEntry then
    call('ZADD', queue, position, id, position, ownEntry)
  else
    call('ZADD', queue, position, id)
  end
  call('PEXPIRE', queue, '300000')
end
local function livingHead(queue, ownEntry)
  while true do
    local pair = call('ZRANGE', queue, '0', '1', 'WITHSCORES')
    local head, claim = pair[1], pair[3]
    if not head then return end
    if claim and (pair[4] ~= pair[2] or string.sub(claim, 1, #head + 1) ~= head .. ' ') then claim = nil end
    if head == id then
      if not ownEntry or claim == ownEntry then return head end
    elseif not string.find(head, ' ', 1, true) and call('EXISTS', 'redlock:live:' .. head) > 0 then
      return head
    end
    call('ZREM', queue, head, claim or head)
  end
end
local sharing
-- sharerBefore tells whether a living waiter that wants to share stands before this
-- position; for position 0, whether there is any.
local function sharerBefore(key, position)
  if sharing == nil then sharing = call('EXISTS', 'redlock:sharing') == 1 end
  local sharers = 'redlock:sharers:' .. key
  while sharing do
    local head = call('ZRANGE', sharers, '0', '0', 'WITHSCORES')
    if not head[1] or position > 0 and tonumber(head[2]) >= position then return false end
    if call('EXISTS', 'redlock:live:' .. head[1]) == 1 then return true end
    call('ZREM', sharers, head[1])
  end
  return false
end
local last, base = {}, tonumber(rec[2] or 0)
for i = 1, n do
  local key, stripe, owner = KEYS[1 + i], ARGV[2 + i], ARGV[2 + n + i]
  local hint, position = ARGV[2 + 3 * n + i], tonumber(ARGV[2 + 4 * n + i])
  local queue, ownEntry = 'redlock:queue:' .. key, ARGV[pushes + i] == '1' and id .. ' ' .. owner
  local c = last[stripe] or tonumber(rec[2 + i] or 0)
  if c < base then c = base end
  local val = call('MGET', key, KEYS[1 + n + i])
  local detail, reply, head = 0, nil, nil
  if val[1] == owner then
    if ownEntry then
      if c < position and position < 9007199254740991 then
        call('HSET', KEYS[1], stripe, ARGV[2 + 4 * n + i])
        c = position
        last[stripe] = c
      end
      call('PEXPIRE', key, ARGV[2 + 2 * n + i], 'GT')
    end
    reply = c
  elseif val[1] then
    local left = call('PTTL', key)
    reply = left < 0 and -9 or -10 - left
    if string.sub(val[1], -13, -13) ~= '-' or string.sub(val[1], -18, -18) ~= '-' then detail = 2 end
    if position > 0 and not val[2] then record(queue, ARGV[2 + 4 * n + i], ownEntry) end
  elseif pcall('ZRANGE', key, '0', '0')[1] == 'redlock:shared' then
    local left = call('PTTL', key)
    reply = left < 0 and -9 or -10 - left
    if position > 0 and not val[2] then record(queue, ARGV[2 + 4 * n + i], ownEntry) end
  elseif val[2] then
    reply = -1
  elseif position >= 0 then
    head = livingHead(queue, ownEntry)
    if head and head ~= id then
      if position > 0 then
        record(queue, ARGV[2 + 4 * n + i], ownEntry)
        head = livingHead(queue, ownEntry)
      end
      if head and head ~= id then reply = -3 end
    end
    if not reply and sharerBefore(key, position) then
      if position > 0 then record(queue, ARGV[2 + 4 * n + i], ownEntry) end
      reply = -3
    end
  end
  if not reply then
    local least = tonumber(hint)
    if c < least then
      c = least
    else
      c = c + 1
      hint = c
    end
    if ownEntry and c < position then
      c = position
      hint = ARGV[2 + 4 * n + i]
    end
    if c >= 9007199254740991 then
      reply = -2
    else
      call('HSET', KEYS[1], stripe, hint)
      last[stripe] = c
      reply = c
      if not call('SET', key, owner, 'NX', 'PX', ARGV[2 + 2 * n + i]) then
        local left = call('PTTL', key)
        reply, detail = left < 0 and -9 or -10 - left, 2
      elseif ownEntry and head then
        call('ZREM', queue, id, ownEntry)
      end
    end
  end
  if reply <= -3 then
    if position > 0 then
      if not (ownEntry and val[2]) and livingHead(queue, ownEntry) == id and not sharerBefore(key, position) then detail = detail + 1 end
    else
      local top = tonumber(call('ZRANGE', queue, '-1', '-1', 'WITHSCORES')[2] or 0)
      if top < c then top = c end
      if sharing == nil then sharing = call('EXISTS', 'redlock:sharing') == 1 end
      if sharing then top = math.max(top, tonumber(call('ZRANGE', 'redlock:sharers:' .. key, '-1', '-1', 'WITHSCORES')[2] or 0)) end
      detail = top + 1
    end
  end
  out[i], out[n + i] = reply, detail
end
local time = pcall('TIME')
out[2 * n + 1], out[2 * n + 2] = time[1], time[2]
return out
