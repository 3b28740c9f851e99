-- accept: accept a proposal of the cluster's next configuration.
-- KEYS[1] redlock:node
-- ARGV    epoch, ballot, base, configuration (MaxTTL in ms, strict, names; one a line)
-- returns 1 done
--         0 refused: an operator has a higher ballot
--        -1 abstained: the epoch is missing or another
-- atomic because the ballot must be the one that the node was settled by. The base never
-- falls. What the node votes for stays as it is, and so does its epoch.
local rec = redis.call('HMGET', KEYS[1], 'epoch', 'ballot', 'base')
if rec[1] ~= ARGV[1] then return -1 end
if tonumber(rec[2] or 0) ~= tonumber(ARGV[2]) then return 0 end
redis.call('HSET', KEYS[1], 'proposed', ARGV[2] .. '\n' .. ARGV[4],
  'base', string.format('%.0f', math.max(tonumber(ARGV[3]), tonumber(rec[3] or 0))))
return 1
