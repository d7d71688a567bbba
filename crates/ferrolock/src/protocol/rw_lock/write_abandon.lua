-- Releases the field of a writer that has gone: its hold, or its intent.
-- KEYS  1 lock, 2 channel, 3 write intent, 4 holder details (optional)
-- ARGV  1 field of the tenure
-- reply its hold was there: how many clients got the message (0 or more); it had none: -1
--
-- The hold ends as by a release. If there was an intent only, the readers that it kept out are woken. Begins with a write
-- that a full server allows. Details are for people: what cannot be done about them is left out.
local lock, channel, intent, details = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local field = ARGV[1]

local waited = redis.call('GET', intent) == field
if waited then
    redis.call('DEL', intent)
end
if redis.call('HDEL', lock, field) == 1 then
    if details then
        redis.pcall('HDEL', details, field)
    end
    after_write(lock)
    return redis.call('PUBLISH', channel, '1')
end
if waited and redis.call('HGET', lock, 'mode') ~= 'write' then
    redis.call('PUBLISH', channel, '1')
end
return -1
