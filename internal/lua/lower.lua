-- lower: bring a record's MaxTTL down, in two steps.
-- KEYS[1] redlock:node
-- ARGV    cluster, epoch (empty if the record has none), new epoch, maxttl (ms; 0: the second
--         step)
-- returns 1 done
--        -1 refused: another cluster's record, or the epoch differs
-- atomic because a client that voted under the old epoch must find the new one together
-- with the new MaxTTL: a client with a longer lease raises it before it votes. The first
-- step keeps the old MaxTTL beside the new one: a joiner waits for the longer of both.
-- The second step removes it, once all earlier leases are over. Neither raises MaxTTL.
local rec = redis.call('HMGET', KEYS[1], 'cluster', 'epoch', 'maxttl', 'maxttl_was')
if rec[1] ~= ARGV[1] or (rec[2] or '') ~= ARGV[2] then return -1 end
if ARGV[4] == '0' then
  redis.call('HDEL', KEYS[1], 'maxttl_was')
else
  local now = tonumber(rec[3] or 0)
  redis.call('HSET', KEYS[1], 'maxttl', string.format('%.0f', math.min(now, tonumber(ARGV[4]))),
    'maxttl_was', string.format('%.0f', math.max(now, tonumber(rec[4] or 0))))
end
if rec[2] then redis.call('HSET', KEYS[1], 'epoch', ARGV[3]) end
return 1
