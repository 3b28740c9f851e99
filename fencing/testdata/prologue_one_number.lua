-- Fencing prologue: stands before the body of a script and refuses a stale token.
-- KEYS[1]  the resource's token key
-- ARGV[1]  the writer's token, in decimal
-- returns  the error "FENCED <highest>" for a stale token, or
--          "FENCECORRUPT ..." if the key holds something else; the body does
--          not run then. Otherwise the body runs, with both arguments removed,
--          so that its own keys and arguments begin at 1.
-- atomic:  a script runs alone. Everything that can refuse comes before the
--          first write; the token is stored before the body's writes, so that
--          what fails half way leaves the newer token, not the older.
-- numbers: tokens are below 2^53, which doubles keep exactly. They are compared
--          as numbers and stored and returned as the text they came in.
do
  local key = table.remove(KEYS, 1)
  local token = table.remove(ARGV, 1)
  local seen = redis.pcall('GET', key)
  if seen and (type(seen) ~= 'string' or #seen > 16 or not string.find(seen, '^[1-9]%d*$')) then
    return redis.error_reply('FENCECORRUPT the token key holds something else')
  end
  if seen and tonumber(seen) > tonumber(token) then
    return redis.error_reply('FENCED ' .. seen)
  end
  if seen ~= token then
    redis.call('SET', key, token)
  end
end
