-- Keeps read holds alive, or only asks whether they are there (lease 0): any number of them, a row each.
-- KEYS  per row: lock, hold key, holder details (in every row or in none)
-- ARGV  per row: field of the tenure, lease in ms
-- reply per row 1: held; 0: the hold is not there; -1: a writer is there; a text: the server's error about this row
--
-- Ours, and its hold key lives: raise that if it is shorter than wanted, and the lock to what the hold key has then: Redisson's
-- readers cut the lock to their own lease. Not ours: write nothing. An error in one row concerns no other row. If every row failed, the first error is the reply itself: the caller's connection must notice
-- a server that takes no writes. Details are for people: what cannot be done about them is left out.
local keys, args = KEYS, ARGV

local function lengthen(key, lease)
    local raised = redis.pcall('PEXPIRE', key, lease, 'GT')
    if raised == 0 and redis.pcall('PTTL', key) == -1 then
        raised = redis.pcall('PEXPIRE', key, lease)
    end
    return raised
end

local function renew(lock, hold, details, field, lease)
    local held = redis.pcall('HEXISTS', lock, field)
    if held == 0 then
        local mode = redis.pcall('HGET', lock, 'mode')
        return type(mode) == 'table' and mode or (mode == 'write' and -1 or 0)
    end
    if held == 1 then
        held = redis.pcall('EXISTS', hold)
    end
    if held ~= 1 or lease == '0' then
        return held
    end
    local kept = lengthen(hold, lease)
    local left = math.max(tonumber(lease), redis.call('PTTL', hold))
    local raised = lengthen(lock, left)
    if details and raised == 1 then
        redis.pcall('PEXPIRE', details, left)
    end
    return type(kept) == 'table' and kept or (type(raised) == 'table' and raised or 1)
end

local rows = #args / 2
local width = #keys / rows
local reply, failed, first = {}, 0, nil
for row = 1, rows do
    local key = (row - 1) * width + 1
    local answer = renew(keys[key], keys[key + 1], width == 3 and keys[key + 2], args[2 * row - 1], args[2 * row])
    if type(answer) == 'table' then
        first, failed, answer = first or answer, failed + 1, answer.err
    end
    reply[row] = answer
end
return failed == rows and first or reply
