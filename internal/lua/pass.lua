-- pass: hand one lock from one owner value to another, inside one process.
-- KEYS[1] the resource
-- KEYS[2] redlock:node
-- KEYS[3] redlock:dead:<the new owner value>
-- ARGV    old owner, new owner, ttl (ms), hint, stripe, epoch
-- returns an integer, as acquire.lua, and
--    -4   the old owner's key is no longer there
--   and behind it the node's TIME, if the user may read it
-- atomic as acquire.lua: the name is never free in between, so the queues are not read
-- and no waiter is woken. The lease is the new owner's own.
local call = redis.call
local rec = call('HMGET', KEYS[2], 'epoch', 'base', ARGV[5])
local base, c, hint = tonumber(rec[2] or 0), tonumber(rec[3] or 0), ARGV[4]
if c < base then c = base end
local val, least = call('MGET', KEYS[1], KEYS[3]), tonumber(hint)
if rec[1] ~= ARGV[6] then
  c = 0
elseif val[1] == ARGV[2] then
  -- this call came before: the counter tells its token
elseif not val[1] then
  c = -4
elseif val[1] ~= ARGV[1] then
  local left = call('PTTL', KEYS[1])
  c = left < 0 and -9 or -10 - left
elseif val[2] then
  c = -1
else
  if c < least then
    c = least
  else
    c = c + 1
    hint = c
  end
  if c >= 9007199254740991 then
    c = -2
  else
    call('HSET', KEYS[2], ARGV[5], hint)
    call('SET', KEYS[1], ARGV[2], 'XX', 'PX', ARGV[3])
  end
end
local time = redis.pcall('TIME')
return {c, time[1], time[2]}
