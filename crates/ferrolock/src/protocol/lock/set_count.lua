-- Part of the scripts that leave holds of a tenure.
-- part  set_count(lock, details, field, held, count, need): `held` is the count now, `need` the time in ms that the holds
--       still need, `details` may be nil
--
-- The lease is raised, never cut, and the count is set, so a repeat changes nothing. The lease comes first: after that a
-- full server takes the HSET. Details are for people: what cannot be done about them is left out.
local function set_count(lock, details, field, held, count, need)
    local left = redis.call('PTTL', lock)
    if left < tonumber(need) then
        redis.call('PEXPIRE', lock, need)
        if details then
            redis.pcall('PEXPIRE', details, need)
        end
    elseif held ~= count then
        redis.call('PEXPIRE', lock, left)
    end
    if held ~= count then
        redis.call('HSET', lock, field, count)
    end
end
