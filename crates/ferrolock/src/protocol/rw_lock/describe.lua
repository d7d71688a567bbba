-- Part of the scripts that begin a read hold.
-- part  describe(details, field, lease, who): writes who the holder is, for `lease` ms at least
--
-- Details are for people: what cannot be done about them is left out.
local function describe(details, field, lease, who)
    local now, left = redis.pcall('TIME'), redis.pcall('PTTL', details)
    if now.err or type(left) == 'table' then
        return
    end
    local since = string.format('%d%03d', now[1], math.floor(now[2] / 1000))
    redis.pcall('HSET', details, field, since .. '\n' .. who)
    if left < tonumber(lease) then
        redis.pcall('PEXPIRE', details, lease)
    end
end
