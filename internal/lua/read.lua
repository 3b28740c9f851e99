-- read: a node's identity, its record and its largest number.
-- KEYS[1] redlock:node
-- ARGV    1 to also find the largest number (reads every stripe), or 0
-- returns its identity (<run_id>.<master_replid>); its role; the largest number
--         (0 if none, or not requested); its clock's reading (us); then the fields below,
--         nil if absent; CROSSSLOT in cluster mode, as the first script over several keys would say
-- atomic because a record counts only together with the identity of the server that
-- shows it: between two commands the server may restart, or take over another server's
-- data (REPLICAOF).
local server = redis.call('INFO', 'server')
if string.find(server, '_mode:cluster') then return redis.error_reply('CROSSSLOT redlock: the server runs in cluster mode') end
local process = string.match(server, 'run_id:(%w+)')
local replication = redis.call('INFO', 'replication')
local history = string.match(replication, 'master_replid:(%w+)')
local role = string.match(replication, 'role:(%w+)')
if not process or not history or not role then return redis.error_reply('ERR redlock: INFO has no run_id, no master_replid or no role') end
local rec = redis.call('HMGET', KEYS[1], 'format', 'epoch', 'cluster', 'names', 'maxttl', 'run', 'base',
  'strict', 'gen', 'before', 'before_maxttl', 'settled', 'ballot', 'proposed', 'nonce', 'nonce_run', 'since', 'from', 'claim')
local largest = tonumber(rec[7] or 0) or 0
if ARGV[1] == '1' then
  local all = redis.call('HGETALL', KEYS[1])
  for i = 1, #all, 2 do
    if string.find(all[i], '^%d+$') then largest = math.max(largest, tonumber(all[i + 1]) or 0) end
  end
end
return {process .. '.' .. history, role, largest, string.match(server, 'server_time_usec:(%d+)') or '', unpack(rec, 1, 19)}
