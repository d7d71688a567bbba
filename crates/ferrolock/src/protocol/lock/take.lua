-- Part of the scripts that take a free lock.
-- part  take(lock, details, field, lease, who): writes the field with a count of one and starts the lease; returns nothing,
--       or the server's error, and then the lock is free as before. `details` may be nil
--
-- The HSET is the first write, unless its script made one: a full server refuses it. Details are for people: what cannot
-- be done about them is left out.
local function take(lock, details, field, lease, who)
    redis.call('HSET', lock, field, 1)
    local ends = redis.pcall('PEXPIRE', lock, lease)
    if ends ~= 1 then
        redis.call('HDEL', lock, field)
        return ends
    end
    local now = details and redis.pcall('TIME')
    if now and not now.err then
        local since = string.format('%d%03d', now[1], math.floor(now[2] / 1000))
        redis.pcall('HSET', details, field, since .. '\n' .. who)
        redis.pcall('PEXPIRE', details, lease)
    end
end
