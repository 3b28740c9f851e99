-- ask: acquire.lua for n names that a process waits for, by its place in line.
-- KEYS[1]   redlock:node
-- KEYS[2..] n resources, then their n redlock:dead:<owner value>
-- ARGV      epoch, the waiting process's id, n stripes, n owners, n ttls (ms),
--           n hints, n positions: 0 asks for a ticket, -1 looks at no queue; and of a
--           process that takes grants by push, its clock's reading (ms) and n times 1,
--           or 0 for a lock that it does not take so
-- returns 2n integers: n as acquire.lua's, then n that say more of a refusal:
--   without a position: a ticket
--   with one: 1 this process is the head here, plus 2 the holder is foreign
-- atomic as acquire.lua. Who waits is kept in
--   redlock:queue:<resource>  a sorted set: the processes' ids by position; and
--                             "id owner" at the same position, right behind, where
--                             a release may grant to that owner (hand.lua)
--   redlock:live:<id>         while the process lives, its reading; without it an
--                             entry is dead, and is dropped by whoever meets it
--   redlock:waiting           while anybody waits for anything here
-- which are named here and not in KEYS: a node is one server, never a Cluster.
-- A free name is granted to the head only, and a position that is lower than
-- every living one makes its process the head, recorded before or not: so no two
-- heads on different nodes can wait for each other. An ask wakes nobody, and one
-- whose owner value is dead records nobody: it comes late, and may be of a process
-- that has left.
-- Who takes pushes has an entry for each attempt: only that of this owner is its own,
-- another of the process is of an attempt that has ended, and is dropped at the head
-- (not by an ask that is dead itself: it comes late, and the other is newer).
-- Its entry goes when it is granted, and its key is no lower than its position: also
-- a key that a release has granted, which gets its full lease here.
local call, n = redis.call, (#KEYS - 1) / 2
local id, sign, pushes, out = ARGV[2], ARGV[3 + 5 * n] or 1, 3 + 5 * n, {}
local rec = call('HMGET', KEYS[1], 'epoch', 'base', unpack(ARGV, 3, n + 2))
if rec[1] ~= ARGV[1] then
  for i = 1, 2 * n do out[i] = 0 end
  return out
end
local alive = false
local function record(queue, position, mine)
  if not alive then
    call('SET', 'redlock:live:' .. id, sign, 'PX', '3000')
    call('SET', 'redlock:waiting', '1', 'PX', '3000')
    alive = true
  end
  if mine then
    call('ZADD', queue, position, id, position, mine)
  else
    call('ZADD', queue, position, id)
  end
  call('PEXPIRE', queue, '300000')
end
local function living(queue, mine)
  while true do
    local pair = call('ZRANGE', queue, '0', '1', 'WITHSCORES')
    local head, with = pair[1], pair[3]
    if not head then return end
    if with and (pair[4] ~= pair[2] or string.sub(with, 1, #head + 1) ~= head .. ' ') then with = nil end
    if head == id then
      if not mine or with == mine then return head end
    elseif not string.find(head, ' ', 1, true) and call('EXISTS', 'redlock:live:' .. head) > 0 then
      return head
    end
    call('ZREM', queue, head, with or head)
  end
end
local last, base = {}, tonumber(rec[2] or 0)
for i = 1, n do
  local key, stripe, owner = KEYS[1 + i], ARGV[2 + i], ARGV[2 + n + i]
  local hint, position = ARGV[2 + 3 * n + i], tonumber(ARGV[2 + 4 * n + i])
  local queue, mine = 'redlock:queue:' .. key, ARGV[pushes + i] == '1' and id .. ' ' .. owner
  local c = last[stripe] or tonumber(rec[2 + i] or 0)
  if c < base then c = base end
  local val = call('MGET', key, KEYS[1 + n + i])
  local more, reply, head = 0, nil, nil
  if val[1] == owner then
    if mine then
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
    if string.sub(val[1], -13, -13) ~= '-' or string.sub(val[1], -18, -18) ~= '-' then more = 2 end
    if position > 0 and not val[2] then record(queue, ARGV[2 + 4 * n + i], mine) end
  elseif val[2] then
    reply = -1
  elseif position >= 0 then
    head = living(queue, mine)
    if head and head ~= id then
      if position > 0 then
        record(queue, ARGV[2 + 4 * n + i], mine)
        head = living(queue, mine)
      end
      if head and head ~= id then reply = -3 end
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
    if mine and c < position then
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
        reply, more = left < 0 and -9 or -10 - left, 2
      elseif mine and head then
        call('ZREM', queue, id, mine)
      end
    end
  end
  if reply <= -3 then
    if position > 0 then
      if not (mine and val[2]) and living(queue, mine) == id then more = more + 1 end
    else
      local top = tonumber(call('ZRANGE', queue, '-1', '-1', 'WITHSCORES')[2] or 0)
      if top < c then top = c end
      more = top + 1
    end
  end
  out[i], out[n + i] = reply, more
end
return out
