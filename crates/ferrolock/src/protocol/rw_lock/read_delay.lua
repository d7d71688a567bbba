-- Leaves a read hold in place for a while after its guard was given up.
-- KEYS  1 lock, 2 hold key, 3 holder details (optional)
-- ARGV  1 field of the tenure, 2 time in ms that the name stays taken for writers
-- reply 1: done; 0: the hold is not there; -1: a writer is there
--
-- The server ends it: no message is sent, waiters know the time from the reply to their attempt. The lock lives no shorter
-- than other holds on it need. Details are for people: what cannot be done about them is left out.
local lock, hold, details = KEYS[1], KEYS[2], KEYS[3]
local field, stay = ARGV[1], ARGV[2]

if redis.call('HEXISTS', lock, field) == 0 then
    return redis.call('HGET', lock, 'mode') == 'write' and -1 or 0
end
if redis.call('PEXPIRE', hold, stay) == 0 then
    return 0
end
if redis.call('HLEN', lock) == 2 then
    redis.call('PEXPIRE', lock, stay)
    if details then
        redis.pcall('PEXPIRE', details, stay)
    end
else
    raise(lock, stay)
end
return 1
