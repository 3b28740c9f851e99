-- Fencing prologue: stands before the body of a script and refuses a stale token.
-- KEYS[1]  the resource's token key
-- ARGV[1]  the writer's token, in decimal; " shared" behind it if its hold is
--          shared
-- returns  the error "FENCED <highest>" for a stale token, with " shared" behind
--          it if that number is one of sharers; "FENCECORRUPT ..." if the key
--          holds something else; "FENCEBAD ..." if ARGV[1] is no token. The body
--          does not run then. Otherwise the body runs, with both arguments
--          removed, so that its own keys and arguments begin at 1.
-- key:     the largest exclusive token, or, once sharers came after it, "<that>
--          <the largest shared token>", 0 for none. So a key from before there
--          were shared tokens is valid, and so is one that they are gone from.
-- atomic:  a script runs alone. Everything that can refuse comes before the
--          first write; the token is stored before the body's writes, so that
--          what fails half way leaves the newer token, not the older.
-- numbers: tokens are below 2^53, which doubles keep exactly. They are compared
--          as numbers and stored and returned as the text they came in.
do
  local key = table.remove(KEYS, 1)
  local token, kind = string.match(table.remove(ARGV, 1) or '', '^([1-9]%d*)(.*)$')
  if not token or #token > 16 or (kind ~= '' and kind ~= ' shared') then
    return redis.error_reply('FENCEBAD the argument is no token')
  end
  local seen = redis.pcall('GET', key)
  local exclusive, shared = seen or '0', '0'
  if type(seen) == 'string' and string.find(seen, ' ', 1, true) then
    exclusive, shared = string.match(seen, '^(%d+) ([1-9]%d*)$')
  end
  if seen and (type(exclusive) ~= 'string' or #exclusive > 16 or #shared > 16 or
    not (string.find(exclusive, '^[1-9]%d*$') or exclusive == '0' and shared ~= '0') or
    shared ~= '0' and tonumber(shared) <= tonumber(exclusive)) then
    return redis.error_reply('FENCECORRUPT the token key holds something else')
  end
  local number, above, below = tonumber(token), tonumber(shared), tonumber(exclusive)
  if kind == ' shared' then
    if number <= below then
      return redis.error_reply('FENCED ' .. exclusive)
    end
    if number > above then
      redis.call('SET', key, exclusive .. ' ' .. token)
    end
  else
    if number <= above then
      return redis.error_reply('FENCED ' .. shared .. ' shared')
    end
    if number < below then
      return redis.error_reply('FENCED ' .. exclusive)
    end
    if seen ~= token then
      redis.call('SET', key, token)
    end
  end
end
