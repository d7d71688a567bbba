-- Part of the scripts that have removed the field of a write hold.
-- part  after_write(lock): what is left are read holds of the same owner, or nothing
--
-- Readers are left: the lock is theirs, for as long as the longest of them. Otherwise it is free.
local function after_write(lock)
    local longest, is_exact = longest_read(lock)
    if longest == 0 then
        redis.call('DEL', lock)
        return
    end
    if is_exact then
        redis.call('PEXPIRE', lock, longest)
    end
    redis.call('HSET', lock, 'mode', 'read')
end
