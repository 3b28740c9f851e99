-- release_batch: release.lua for n locks, m of them with a tombstone.
-- KEYS    n resources, then m redlock:dead:<owner value>
-- ARGV    n, n owners, m tombstones' lives (ms)
-- returns how many were deleted
-- atomic as release.lua: every DEL comes before the first tombstone.
local n = tonumber(ARGV[1])
local val, ours = redis.call('MGET', unpack(KEYS, 1, n)), {}
for i = 1, n do
  if val[i] == ARGV[1 + i] then ours[#ours + 1] = KEYS[i] end
end
local gone = 0
if #ours > 0 then gone = redis.call('DEL', unpack(ours)) end
for i = n + 1, #KEYS do
  if redis.call('PTTL', KEYS[i]) < tonumber(ARGV[1 + i]) then
    redis.call('SET', KEYS[i], 1, 'PX', ARGV[1 + i])
  end
end
return gone
