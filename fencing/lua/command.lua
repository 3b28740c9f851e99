-- One command behind the prologue.
-- KEYS[1]  the key that the command writes
-- ARGV     the command's name, then its arguments after the key
-- returns  what the command returns
-- atomic:  with the prologue, in one script.
return redis.call(ARGV[1], KEYS[1], unpack(ARGV, 2))
