-- Part of the scripts that need a key for some time.
-- part  raise(key, need): the key lives for `need` ms at least; returns nothing, or the server's error
--
-- A time to live is raised, never cut: another holder may need more.
local function raise(key, need)
    if redis.call('PTTL', key) < tonumber(need) then
        local raised = redis.pcall('PEXPIRE', key, need)
        if raised ~= 1 then
            return raised
        end
    end
end
