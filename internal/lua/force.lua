-- force: put the cluster's next list of nodes in force.
-- KEYS[1] redlock:node
-- ARGV    epoch, new epoch, gen, names, names before (one a line), base
-- returns 1 done
--         0 refused: the node has this list, or a later one
--        -1 abstained: the epoch is missing or another
-- atomic because a client must find the new epoch together with the list. Keys and stripes
-- stay, and the base never falls. since is for operators only: nothing rests on that clock.
local rec = redis.call('HMGET', KEYS[1], 'epoch', 'gen', 'base')
if rec[1] ~= ARGV[1] then return -1 end
if tonumber(rec[2] or 0) >= tonumber(ARGV[3]) then return 0 end
redis.call('HSET', KEYS[1], 'epoch', ARGV[2], 'gen', ARGV[3], 'names', ARGV[4], 'before', ARGV[5], 'settled', '',
  'ballot', 0, 'proposed', '', 'since', string.match(redis.call('INFO', 'server'), 'server_time_usec:(%d+)') or '', 'base', string.format('%.0f', math.max(tonumber(ARGV[6]), tonumber(rec[3] or 0))))
return 1
