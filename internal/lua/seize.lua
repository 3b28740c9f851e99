-- seize: end what an old list founded beside the cluster.
-- KEYS[1] redlock:node
-- ARGV    identity, epoch of its record (or empty), claim that stands (or empty), nonce, claim
-- returns 1 done: the node is blank, with that notice
--         0 refused: what it has is another, or the server is no longer the same, or a replica
-- atomic because it must end what its writer read, and nothing that came since. Keys and
-- stripes stay: what was locked there runs on.
local process = string.match(redis.call('INFO', 'server'), 'run_id:(%w+)') or ''
local replication = redis.call('INFO', 'replication')
local identity = process .. '.' .. (string.match(replication, 'master_replid:(%w+)') or '')
local old = redis.call('HMGET', KEYS[1], 'epoch', 'nonce_run', 'claim')
local claim = old[2] == identity and old[3] or ''
if identity ~= ARGV[1] or not string.find(replication, 'role:master') or (old[1] or '') ~= ARGV[2] or claim ~= ARGV[3] then return 0 end
redis.call('HDEL', KEYS[1], 'format', 'epoch', 'cluster', 'names', 'maxttl', 'run', 'base', 'strict', 'gen',
  'before', 'before_maxttl', 'settled', 'ballot', 'proposed', 'since', 'from')
redis.call('HSET', KEYS[1], 'nonce', ARGV[4], 'nonce_run', identity, 'claim', ARGV[5])
return 1
