-- acquire: grant one lock, and assign a fencing token to it.
-- KEYS[1] the resource
-- KEYS[2] redlock:node
-- KEYS[3] redlock:dead:<owner value>
-- ARGV    owner, ttl (ms), hint, stripe, epoch
-- returns an integer
--   > 0   granted: the token
--     0   abstained: the epoch is missing or another
--    -1   dead: this owner value has been released before
--    -2   abstained: the counter is at its end
--    -9   taken, without an end
--  <= -10 taken: -10 - the remaining lease in ms
-- atomic because the counter must be recorded before the key is set and nothing
-- may come between: a failure in the middle leaves a hole in the counter, not a
-- holder with an old token.
local rec = redis.call('HMGET', KEYS[2], 'epoch', 'base', ARGV[4])
if rec[1] ~= ARGV[5] then return 0 end
local val = redis.call('MGET', KEYS[1], KEYS[3])
local c = math.max(tonumber(rec[2] or 0), tonumber(rec[3] or 0))
if val[1] == ARGV[1] then return c end
local function taken()
  local left = redis.call('PTTL', KEYS[1])
  if left < 0 then return -9 end
  return -10 - left
end
if val[1] then return taken() end
if val[2] then return -1 end
c = math.max(c, tonumber(ARGV[3]) - 1) + 1
if c >= 9007199254740991 then return -2 end
redis.call('HSET', KEYS[2], ARGV[4], string.format('%.0f', c))
if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return taken() end
return c
