-- Keeps holds on plain locks alive, or only asks whether they are there (lease 0): any number of them, a row each.
-- KEYS  per row: lock, holder details (in every row or in none)
-- ARGV  per row: field of the tenure, lease in ms
-- reply per row 1: held; 0: nothing is there; -1: another client is there; a text: the server's error about this row
--
-- Ours: raise the lease if it is shorter than wanted, or missing. Not ours: write nothing. An error in one row concerns no
-- other row. If every row failed, the first error is the reply itself: the caller's connection must notice a server
-- that takes no writes. Details are for people: what cannot be done about them is left out.
local keys, args = KEYS, ARGV

local function renew(lock, details, field, lease)
    local held = redis.pcall('HEXISTS', lock, field)
    if held == 0 then
        local other = redis.pcall('EXISTS', lock)
        return other == 1 and -1 or other
    end
    if held ~= 1 or lease == '0' then
        return held
    end
    local raised = redis.pcall('PEXPIRE', lock, lease, 'GT')
    if raised == 0 then
        local left = redis.pcall('PTTL', lock)
        if left ~= -1 then
            return type(left) == 'table' and left or 1
        end
        raised = redis.pcall('PEXPIRE', lock, lease)
    end
    if details and raised == 1 then
        redis.pcall('PEXPIRE', details, lease)
    end
    return raised
end

local rows = #args / 2
local width = #keys / rows
local reply, failed, first = {}, 0, nil
for row = 1, rows do
    local key = (row - 1) * width + 1
    local answer = renew(keys[key], width == 2 and keys[key + 1], args[2 * row - 1], args[2 * row])
    if type(answer) == 'table' then
        first, failed, answer = first or answer, failed + 1, answer.err
    end
    reply[row] = answer
end
return failed == rows and first or reply
