-- pass: hand one lock from one owner value to another, inside one process.
-- KEYS[1] the resource
-- KEYS[2] redlock:node
-- KEYS[3] redlock:dead:<the new owner value>
-- ARGV    old owner, new owner, ttl (ms), hint, stripe, epoch
-- returns an integer, as acquire.lua, and
--    -4   the old owner's key is no longer there
-- atomic as acquire.lua: the name is never free in between, so the queues are not read
-- and no waiter is woken. The lease is the new owner's own.
local call = redis.call
local rec = call('HMGET', KEYS[2], 'epoch', 'base', ARGV[5])
if rec[1] ~= ARGV[6] then return 0 end
local base, c, hint = tonumber(rec[2] or 0), tonumber(rec[3] or 0), ARGV[4]
if c < base then c = base end
local val = call('MGET', KEYS[1], KEYS[3])
if val[1] == ARGV[2] then return c end
if val[1] ~= ARGV[1] then
  if not val[1] then return -4 end
  local left = call('PTTL', KEYS[1])
  return left < 0 and -9 or -10 - left
end
if val[2] then return -1 end
local least = tonumber(hint)
if c < least then
  c = least
else
  c = c + 1
  hint = c
end
if c >= 9007199254740991 then return -2 end
call('HSET', KEYS[2], ARGV[5], hint)
call('SET', KEYS[1], ARGV[2], 'XX', 'PX', ARGV[3])
return c
