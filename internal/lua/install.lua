-- install: make a node a member.
-- KEYS[1] redlock:node
-- ARGV    nonce (empty: over a survivor), identity, format, epoch, cluster, names, maxttl (ms), base,
--         strict (1, or empty), gen, before, before_maxttl (ms), settled, ballot, proposed,
--         a survivor's epoch, the claim with the notice, from
-- returns 1 installed
--         0 refused: the notice is not the joiner's, or the epoch is another
--        -1 refused: the server is no longer the same (it restarted, or took over
--           another server's data), or it is a replica
--        -2 refused: its record has another format
-- atomic because the notice proves that nothing was installed, flushed, claimed or
-- restarted since the joiner began to wait, and this call uses it up. An epoch proves the
-- same of a survivor, which a founder takes over. The record gets the
-- identity under which the joiner waited. Existing keys and stripes stay; no number falls.
local process = string.match(redis.call('INFO', 'server'), 'run_id:(%w+)') or ''
local replication = redis.call('INFO', 'replication')
local identity = process .. '.' .. (string.match(replication, 'master_replid:(%w+)') or '')
if identity ~= ARGV[2] or not string.find(replication, 'role:master') then return -1 end
local old = redis.call('HMGET', KEYS[1], 'nonce', 'nonce_run', 'format', 'base', 'epoch', 'run', 'claim')
if old[3] and old[3] ~= ARGV[3] then return -2 end
if ARGV[1] == '' then
  if old[5] ~= ARGV[16] or old[6] ~= ARGV[2] then return 0 end
elseif old[1] ~= ARGV[1] or old[2] ~= ARGV[2] or (old[7] or '') ~= ARGV[17] then
  return 0
end
local base = math.max(tonumber(ARGV[8]), tonumber(old[4] or 0))
redis.call('HSET', KEYS[1], 'format', ARGV[3], 'epoch', ARGV[4], 'cluster', ARGV[5],
  'names', ARGV[6], 'maxttl', ARGV[7], 'run', ARGV[2], 'base', string.format('%.0f', base), 'strict', ARGV[9],
  'gen', ARGV[10], 'before', ARGV[11], 'before_maxttl', ARGV[12], 'settled', ARGV[13], 'ballot', ARGV[14], 'proposed', ARGV[15], 'from', ARGV[18])
redis.call('HDEL', KEYS[1], 'nonce', 'nonce_run', 'claim', 'since')
return 1
