-- ask_slot: grant one of a name's n slots, by the process's place in the queue.
-- KEYS[1] redlock:node
-- KEYS[2] the slot, redlock:slot:<i>:<name>: a plain lock, i from 0 to n-1
-- KEYS[3] redlock:dead:<owner value>
-- ARGV    epoch, the waiting process's id, its clock's reading (ms), stripe, owner, ttl
--         (ms), hint, position (0 asks for a ticket, -1 looks at no queue), the name, n (at
--         most 48)
-- returns five integers: acquire.lua's, where -3 means free, but another waiter is first;
--   then, after a refusal:
--   without a position a ticket, else 0
--   1 no living waiter is first: with a position this process is the head, without one
--     nobody waits
--   the slots that are free here, slot i as the bit 2^i: hence 48
--   the remaining lease of the slot that ends first (ms); -1 if none of them has an end
-- atomic as acquire.lua. All slots of a name share one queue, stored as ask.lua says but
-- with ids only:
--   redlock:queue:redlock:slots:<name>
-- A free slot is granted to the head only; without a position, only if nobody waits, and
-- a process does not pass its own entry either. A granted process keeps its entry until it
-- holds a slot on a quorum: then it leaves (release_slot.lua), and so wakes the next. An
-- ask with a dead owner value records nobody: it comes late.
local call, key, id, owner = redis.call, KEYS[2], ARGV[2], ARGV[5]
local rec = call('HMGET', KEYS[1], 'epoch', 'base', ARGV[4])
if rec[1] ~= ARGV[1] then return {0, 0, 0, 0, 0} end
local c, hint, position = math.max(tonumber(rec[2] or 0), tonumber(rec[3] or 0)), ARGV[7], tonumber(ARGV[8])
local queue, slots = 'redlock:queue:redlock:slots:' .. ARGV[9], tonumber(ARGV[10])
local val, left = call('MGET', key, KEYS[3]), call('PTTL', key)
if val[1] == owner then return {c, 0, 0, 0, 0} end
if val[2] and left == -2 then return {-1, 0, 0, 0, 0} end

local function livingHead()
  while true do
    local head = call('ZRANGE', queue, '0', '0')[1]
    if not head or head == id and position > 0 or call('EXISTS', 'redlock:live:' .. head) > 0 then return head end
    call('ZREM', queue, head)
  end
end
if position > 0 and not val[2] then
  call('SET', 'redlock:live:' .. id, ARGV[3], 'PX', '3000')
  call('SET', 'redlock:waiting', '1', 'PX', '3000')
  call('ZADD', queue, ARGV[8], id)
  call('PEXPIRE', queue, '300000')
end
local head = position >= 0 and livingHead() or nil
local clear = not head or position > 0 and head == id

local reply = -3
if left ~= -2 then
  reply = left < 0 and -9 or -10 - left
elseif clear then
  local least = tonumber(hint)
  if c < least then
    c = least
  else
    c = c + 1
    hint = c
  end
  if c >= 9007199254740991 then return {-2, 0, 0, 0, 0} end
  call('HSET', KEYS[1], ARGV[4], hint)
  call('SET', key, owner, 'NX', 'PX', ARGV[6])
  return {c, 0, 0, 0, 0}
end

local free, ends, bit = 0, -1, 1
for i = 0, slots - 1 do
  local remains = call('PTTL', 'redlock:slot:' .. i .. ':' .. ARGV[9])
  if remains == -2 then
    free = free + bit
  elseif remains >= 0 and (ends < 0 or remains < ends) then
    ends = remains
  end
  bit = bit * 2
end
local ticket = 0
if position <= 0 then ticket = math.max(c, tonumber(call('ZRANGE', queue, '-1', '-1', 'WITHSCORES')[2] or 0)) + 1 end
return {reply, ticket, clear and 1 or 0, free, ends}
