-- force: put the cluster's next configuration in force.
-- KEYS[1] redlock:node
-- ARGV    epoch, new epoch, gen, names (one a line), maxttl (ms), strict, names and maxttl
--         before, base
-- returns 1 done
--         0 refused: the node has this configuration, or a later one
--        -1 abstained: the epoch is missing or another
-- atomic because a client must find the new epoch together with the configuration. Keys and
-- stripes stay, and the base never falls. since is for operators only: nothing rests on that clock.
local rec = redis.call('HMGET', KEYS[1], 'epoch', 'gen', 'base')
if rec[1] ~= ARGV[1] then return -1 end
if tonumber(rec[2] or 0) >= tonumber(ARGV[3]) then return 0 end
redis.call('HSET', KEYS[1], 'epoch', ARGV[2], 'gen', ARGV[3], 'names', ARGV[4], 'maxttl', ARGV[5], 'strict', ARGV[6],
  'before', ARGV[7], 'before_maxttl', ARGV[8], 'settled', '', 'ballot', 0, 'proposed', '',
  'since', string.match(redis.call('INFO', 'server'), 'server_time_usec:(%d+)') or '',
  'base', string.format('%.0f', math.max(tonumber(ARGV[9]), tonumber(rec[3] or 0))))
return 1
