-- notice: mark the moment from which a joiner waits.
-- KEYS[1] redlock:node
-- ARGV    nonce
-- returns the nonce in force, and the node's identity
-- atomic because the nonce must belong to the server that it names. A nonce written under
-- another identity is replaced. One of this identity stays, so that many joiners wait on
-- one notice. FLUSHALL deletes it, and so restarts their wait. A replica gets none: the
-- next synchronization would overwrite it.
local process = string.match(redis.call('INFO', 'server'), 'run_id:(%w+)')
local replication = redis.call('INFO', 'replication')
local history = string.match(replication, 'master_replid:(%w+)')
if not process or not history then return redis.error_reply('ERR redlock: INFO has no run_id, or no master_replid') end
if not string.find(replication, 'role:master') then return redis.error_reply('READONLY redlock: a replica gets no notice') end
local identity = process .. '.' .. history
local old = redis.call('HMGET', KEYS[1], 'nonce', 'nonce_run')
if old[1] and old[2] == identity then return {old[1], identity} end
redis.call('HSET', KEYS[1], 'nonce', ARGV[1], 'nonce_run', identity)
return {ARGV[1], identity}
