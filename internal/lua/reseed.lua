-- reseed: put n held locks back on a node that lost them.
-- KEYS[1]   redlock:node
-- KEYS[2..] n resources, then their n redlock:dead:<owner value>
-- ARGV      epoch, n stripes, n owners, n ttls (ms), n tokens
-- returns n integers: 1 done (or ours already); 0 refused
--        -1 abstained: the epoch is missing or another
-- atomic as acquire.lua: the stripe is recorded before the key is set. The client sends it
-- only once a quorum confirmed the lock in the same round, and never counts its reply
-- towards a quorum.
local n, out = (#KEYS - 1) / 2, {}
local rec = redis.call('HMGET', KEYS[1], 'epoch', 'base', unpack(ARGV, 2, n + 1))
if rec[1] ~= ARGV[1] then
  for i = 1, n do out[i] = -1 end
  return out
end
local val = redis.call('MGET', unpack(KEYS, 2))
local stripes = {}
for i = 1, n do
  local owner, token, stripe = ARGV[1 + n + i], ARGV[1 + 3 * n + i], ARGV[1 + i]
  if val[i] == owner then
    out[i] = 1
  elseif val[i] or val[n + i] or redis.call('EXISTS', KEYS[1 + i]) == 1 then
    out[i] = 0
  else
    local seen = stripes[stripe] or math.max(tonumber(rec[2] or 0), tonumber(rec[2 + i] or 0))
    if seen < tonumber(token) then
      redis.call('HSET', KEYS[1], stripe, token)
      seen = tonumber(token)
    end
    stripes[stripe] = seen
    redis.call('SET', KEYS[1 + i], owner, 'PX', ARGV[1 + 2 * n + i])
    out[i] = 1
  end
end
return out
