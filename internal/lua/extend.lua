-- extend: confirm n locks and lengthen their leases.
-- KEYS[1]   redlock:node
-- KEYS[2..] n resources
-- ARGV      epoch, n owners, n ttls (ms)
-- returns n integers: 1 confirmed; 0 gone; 2 held by another owner
--        -1 abstained: the epoch is missing or another
-- atomic because the owner must be ours when the lease moves. It never creates a
-- key, and GT never shortens a lease. Without GT a late renewal of 5 s would cut an
-- extension to 20 s. Comparing PTTL here would cost one more call for each lock.
local n, out = #KEYS - 1, {}
if redis.call('HMGET', KEYS[1], 'epoch')[1] ~= ARGV[1] then
  for i = 1, n do out[i] = -1 end
  return out
end
local val = redis.call('MGET', unpack(KEYS, 2))
for i = 1, n do
  if val[i] == ARGV[1 + i] then
    redis.call('PEXPIRE', KEYS[1 + i], ARGV[1 + n + i], 'GT')
    out[i] = 1
  elseif val[i] then
    out[i] = 2
  else
    out[i] = redis.call('EXISTS', KEYS[1 + i]) * 2
  end
end
return out
