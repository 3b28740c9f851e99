-- acquire: grant one lock, and assign a fencing token to it.
-- KEYS[1] the resource
-- KEYS[2] redlock:node
-- ARGV    owner, ttl (ms), hint, stripe, epoch
-- returns an integer
--   > 0   granted: the token
--     0   abstained: the epoch is missing or another
--    -1   dead: this owner value has been released before
--    -2   abstained: the counter is at its end
--    -3   free, but reserved for a waiter
--    -9   taken, without an end
--  <= -10 taken: -10 - the remaining lease in ms
-- atomic because the counter must be recorded before the key is set and nothing
-- may come between: a failure in the middle leaves a hole in the counter, not a
-- holder with an old token.
-- The lease is a duration (PX): with a moment (PXAT) a wall clock that was read earlier
-- would decide how long the lock is held. NX makes data of any other type taken.
-- Besides KEYS it reads the tombstone of its owner value and the queues (see ask.lua), but
-- only while this node has tombstones or waiters: two more keys in EXISTS tell. A shared name
-- (share.lua) is taken, and the counter stays: EXISTS counts such a key, while MGET returns no
-- string for it. What nearly every call runs makes no closure and builds no string.
local call = redis.call
local rec = call('HMGET', KEYS[2], 'epoch', 'base', ARGV[4])
if rec[1] ~= ARGV[5] then return 0 end
local c, base, hint = (rec[3] or 0) + 0, (rec[2] or 0) + 0, ARGV[3]
if c < base then c = base end
local present = call('EXISTS', KEYS[1], 'redlock:waiting', 'redlock:tombstones')
if present > 0 then
  local val = call('MGET', KEYS[1], 'redlock:waiting', 'redlock:tombstones', 'redlock:dead:' .. ARGV[1])
  if val[1] == ARGV[1] then return c end
  if val[1] or (val[2] and 1 or 0) + (val[3] and 1 or 0) < present and redis.pcall('ZRANGE', KEYS[1], '0', '0')[1] == 'redlock:shared' then
    local left = call('PTTL', KEYS[1])
    return left < 0 and -9 or -10 - left
  end
  if val[4] then return -1 end
  local function hasWaiter(queue)
    local head = call('ZRANGE', queue, '0', '0')[1]
    while head do
      if call('EXISTS', 'redlock:live:' .. head) > 0 then return true end
      call('ZREM', queue, head)
      head = call('ZRANGE', queue, '0', '0')[1]
    end
  end
  if val[2] and (hasWaiter('redlock:queue:' .. KEYS[1]) or call('EXISTS', 'redlock:sharing') > 0 and hasWaiter('redlock:sharers:' .. KEYS[1])) then
    return -3
  end
end
local least = hint + 0
if c < least then
  c = least
else
  c = c + 1
  hint = c
end
if c >= 9007199254740991 then return -2 end
call('HSET', KEYS[2], ARGV[4], hint)
if not call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  local left = call('PTTL', KEYS[1])
  return left < 0 and -9 or -10 - left
end
return c
