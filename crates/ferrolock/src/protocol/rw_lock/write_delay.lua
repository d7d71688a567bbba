-- Leaves a write hold in place for a while after its guard was given up.
-- KEYS  1 lock, 2 holder details (optional)
-- ARGV  1 field of the tenure, 2 time in ms that the name stays taken
-- reply 1: done; 0: nothing is there; -1: another holder is there
--
-- The server ends it: no message is sent, waiters know the time from the reply to their attempt. The lock lives no shorter
-- than read holds of the same owner need. Details are for people: what cannot be done about them is left out.
local lock, details = KEYS[1], KEYS[2]
local field, stay = ARGV[1], ARGV[2]

if redis.call('HEXISTS', lock, field) == 0 then
    return -redis.call('EXISTS', lock)
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
