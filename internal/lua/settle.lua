-- settle: begin a change of the cluster's configuration.
-- KEYS[1] redlock:node
-- ARGV    epoch, new epoch, gen, ballot
-- returns 1 done
--         0 refused: the configuration is another, or an operator has as high a ballot
--        -1 abstained: the epoch is missing or another
-- atomic because clients of the list before must find the new epoch together with the mark
-- that refuses them. Clients of the list itself go on.
local rec = redis.call('HMGET', KEYS[1], 'epoch', 'gen', 'ballot')
if rec[1] ~= ARGV[1] then return -1 end
if tonumber(rec[2] or 0) ~= tonumber(ARGV[3]) or tonumber(rec[3] or 0) >= tonumber(ARGV[4]) then return 0 end
redis.call('HSET', KEYS[1], 'epoch', ARGV[2], 'settled', 1, 'ballot', ARGV[4])
return 1
